// StepOptions: the number of steps, their samples, and the work between them.
//
//   StepOptions{.steps = 100, .batch = 8, .share = {.kind = ShareKind::kMeasured}, .eval_every = 50}
//
// Values only.
#pragma once

#include <cstdint>
#include <vector>

namespace zero {

// Samples of each rank in a micro-batch (app/train/watch/sample_shares.h).
enum class ShareKind : std::uint8_t { kEqual, kGiven, kMeasured };

struct ShareOptions {
  ShareKind kind = ShareKind::kEqual;
  std::vector<std::int64_t> given;  // samples of each rank; their sum is batch x world
  std::int64_t most = 0;            // limit of measured shares: samples of one rank, >= batch; 0: no limit
};

struct StepOptions {
  std::int64_t steps = 2000;
  std::int64_t batch = 6;  // samples per rank and micro-batch, as a mean over ranks
  ShareOptions share;      // number of samples of each rank
  std::int64_t accumulate = 1;
  std::int64_t leaves = 0;    // logical micro-batches of `batch` samples in a step (zero/plan/units/leaves.h); 0: none
  double gradient_noise = 0;  // eta of GradientNoise; 0: none
  std::uint64_t seed = 1337;
  std::int64_t eval_every = 250;   // 0: evaluates only at the end
  std::int64_t eval_batches = 20;  // 0: the whole split, as in the last evaluation
  std::int64_t patience = 0;       // evaluations without improvement until the run ends; 0: off
  std::int64_t log_every = 10;
  std::int64_t sample = 0;  // tokens to generate at the end
};

// Returns the samples of a step over all ranks.
inline std::int64_t samples_per_step(const StepOptions& options, int world) {
  return options.batch * (options.leaves > 0 ? options.leaves : options.accumulate * world);
}

}  // namespace zero
