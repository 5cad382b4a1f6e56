// shards_plan(): what a plan's cut (zero/plan/cut.h) gives each rank, and how much moves when a rank joins or leaves.
//
//   const ShardsPlan shards = shards_plan(plan);
//   shards.largest.numel                                // parameters that the rank with the most owns
//   shards.moved_by_joining                             // 0.25: of all parameters; a fourth rank takes that from three
//
// Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zero/report/training_plan.h"

namespace zero {

struct ShardsPlan {
  struct Owned {
    std::int64_t numel = 0;
    double bytes = 0;  // of their states, where a stage splits all of them
  };
  Owned smallest, largest;  // of the ranks that hold the model once
  std::int64_t room = 0;    // elements of a rank's shards, padding included; of the largest, where they differ
  // With zero.shards weighted: what each rank owns, in their order. A rank that joins has the mean weight of the others.
  std::vector<Owned> by_rank;
  // Share of the parameters with another owner when one rank more, or less, holds the model; nothing where it can't be:
  // groups of ranks (zero.group) keep their size, and a single rank cannot leave.
  std::optional<double> moved_by_joining, moved_by_leaving;
  std::optional<double> moved_in_ranges_by_joining, moved_in_ranges_by_leaving;  // with zero.shards range
};
ShardsPlan shards_plan(const TrainingPlan& plan);

// Rows of the plan's table; none for equal ranges, of which plan_json() alone tells what moves.
std::string shards_rows(const TrainingPlan& plan);

}  // namespace zero
