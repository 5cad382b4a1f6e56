// CheckpointPolicy: when a run is saved, and which checkpoints are kept.
//
//   CheckpointPolicy{.every_steps = 500, .keep = 3, .keep_best = BestMeasure::kLoss}
//
// Values only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "zero/base/numbers/choice.h"

#include "app/report/best_evaluation.h"

namespace zero {

struct CheckpointPolicy {
  std::int64_t every_steps = 0;
  double every_seconds = 0;  // every_steps and every_seconds 0: nothing is saved
  std::int64_t keep = 3;
  std::optional<BestMeasure> keep_best{};  // empty: keeps only the newest
  std::int64_t memory_every = 0;           // steps between in-memory checkpoints; 0: none
  bool async = true;
  bool stop_on_error = false;

  // True if checkpoints are saved to disk.
  bool on() const { return every_steps > 0 || every_seconds > 0; }
};

// Words of checkpoint.keep_best and checkpoint.on_error.
inline constexpr std::array<Choice<std::optional<BestMeasure>>, 3> kBestMeasures{
    {{"none", std::nullopt}, {"loss", BestMeasure::kLoss}, {"accuracy", BestMeasure::kAccuracy}}};
inline constexpr std::array<Choice<bool>, 2> kStopsOnError{{{"continue", false}, {"stop", true}}};

}  // namespace zero
