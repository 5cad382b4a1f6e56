// served_plan(): what a plan with servers costs: memory of a server and of a worker, and bytes that cross.
//
//   const ServedPlan served = served_plan(plan);        // plan.workers > 0, plan.world servers
//   served.pushed                                       // bytes of gradients that a worker sends in a clock
//
// Values only.
#pragma once

#include <cstdint>
#include <string>

#include "zero/plan/estimate.h"
#include "zero/report/training_plan.h"

namespace zero {

struct ServedPlan {
  StateBytes server, worker;
  std::int64_t pushes = 0;              // a server's, of gradients that no update has used, at most
  std::int64_t versions = 0;            // a server's, of weights that workers may be answered with
  std::int64_t older = 0;               // a server's, at most, of those that slow workers still read beside these
  std::int64_t compensation = 0;        // a server's, of the weights that each worker computes with
  std::int64_t pushed = 0, pulled = 0;  // a worker's in a clock
  double largest_part = 0;              // share of these that the busiest server has
  std::int64_t blocks = 0;              // a worker's, for parts that are several stretches of its range (zero.shards)
};
ServedPlan served_plan(const TrainingPlan& plan);

// Rows of the plan's table.
std::string served_rows(const TrainingPlan& plan);

}  // namespace zero
