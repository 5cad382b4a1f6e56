// shards_plan(): what each rank owns under a plan's cut (zero/plan/units/cut.h), and how much moves if a rank joins or
// leaves.
//
//   const ShardsPlan shards = shards_plan(plan);
//   shards.largest.numel                                // elements of the rank that owns most
//   shards.moved_by_joining                             // 0.25: a fourth rank takes a quarter of all parameters
//
// Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/report/plan/training_plan.h"

namespace zero {

struct ShardsPlan {
  struct Owned {
    std::int64_t numel = 0;
    double bytes = 0;  // of their states, at a stage that splits all states
  };
  Owned smallest, largest;  // of the ranks that hold one copy of the model
  std::int64_t room = 0;    // elements of a rank's shards, with padding; of the largest rank if they differ
  // With zero.shards weighted: what each rank owns, in their order. A joining rank has the mean weight of the others.
  std::vector<Owned> by_rank;
  // Share of the parameters that change owners if one rank more, or less, holds the model. Absent if that is
  // impossible: groups of ranks (zero.group) keep their size, and a single rank cannot leave.
  std::optional<double> moved_by_joining, moved_by_leaving;
  std::optional<double> moved_in_ranges_by_joining, moved_in_ranges_by_leaving;  // the same with zero.shards range
};
ShardsPlan shards_plan(const TrainingPlan& plan);

// Returns rows of the plan's table; none for equal ranges. Only plan_json() shows what moves in these.
std::string shards_rows(const TrainingPlan& plan);

}  // namespace zero
