// served_plan(): the costs of a plan with servers: memory of a server and a worker, and bytes between them.
//
//   const ServedPlan served = served_plan(plan);        // plan.workers > 0, plan.world servers
//   served.pushed                                       // bytes of gradients that a worker sends in a clock
//
// Values only.
#pragma once

#include <cstdint>
#include <string>

#include "zero/plan/units/estimate.h"

#include "app/report/plan/training_plan.h"

namespace zero {

struct ServedPlan {
  StateBytes server, worker;
  std::int64_t pushes = 0;              // of a server: pushed gradients that no update has used, at most
  std::int64_t versions = 0;            // of a server: versions of the weights that workers may be answered with
  std::int64_t older = 0;               // of a server: older versions that slow workers still read, at most
  std::int64_t compensation = 0;        // of a server: the weights that each worker computes with
  std::int64_t pushed = 0, pulled = 0;  // of a worker in a clock
  double largest_part = 0;              // share of these bytes on the busiest server
  std::int64_t blocks = 0;              // of a worker: for parts that are several stretches of its range (zero.shards)
};
ServedPlan served_plan(const TrainingPlan& plan);

// Returns rows of the plan's table.
std::string served_rows(const TrainingPlan& plan);

}  // namespace zero
