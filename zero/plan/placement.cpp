#include "zero/plan/placement.h"

#include <fmt/format.h>

#include "zero/base/error.h"

namespace zero {

Placement place(int stage, Reduce reduce, int accumulate) {
  if (stage < 0 || stage > 3) {
    throw ConfigError("zero.stage", fmt::format("{}", stage), "there is no such stage",
                      "0 replicates, 1 shards optimizer state, 2 also gradients, 3 also parameters");
  }
  if (accumulate < 1) {
    throw ConfigError("train.accumulate", fmt::format("{}", accumulate), "a step needs a micro-batch",
                      "set it to 1 or more");
  }
  Placement placement;
  placement.accumulate = accumulate;
  placement.reduce_each = accumulate == 1 || reduce == Reduce::kEach || (reduce == Reduce::kAuto && stage >= 2);
  placement.optimizer_sharded = stage >= 1;
  // A local sum over micro-batches needs the whole gradient: stage-1 memory (semantics: reduce = last).
  placement.gradient_sharded = stage >= 2 && placement.reduce_each;
  placement.parameter_sharded = stage >= 3;
  return placement;
}

}  // namespace zero
