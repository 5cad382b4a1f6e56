// BestEvaluation: the best evaluation of a run so far, and the number of evaluations after it.
//
//   BestEvaluation best;
//   best.add(BestMeasure::kLoss, 500, 1.25);     // true: it is the first
//   best.add(BestMeasure::kLoss, 750, 1.25);     // false: as good as the best is not better, so the earliest stays
//   best.step                                    // 500
//   best.since                                   // 1
//
// A value that is not a number is never better. A value of another measure starts again. The earliest of equal values
// is the best. As a part of RunState, it is saved and restored with a checkpoint, and is the same on each rank. Values
// only; Local.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "zero/base/text/bytes.h"

#include "app/report/screen/loss_text.h"

namespace zero {

enum class BestMeasure : std::uint8_t { kLoss, kAccuracy };

constexpr std::string_view name_of(BestMeasure measure) {
  return measure == BestMeasure::kLoss ? "loss" : "accuracy";
}

struct BestEvaluation {
  BestMeasure measure = BestMeasure::kLoss;
  std::int64_t step = -1;  // -1: no evaluation had a number
  double value = 0;
  std::int64_t since = 0;       // number of evaluations after the best
  std::int64_t evaluated = -1;  // step of the newest evaluation; -1: there is none

  // Adds an evaluation. Returns true if it is better than all earlier evaluations.
  bool add(BestMeasure of, std::int64_t at, double found) {
    if (of != measure) *this = {.measure = of};
    evaluated = at;
    const bool better = step < 0 || (measure == BestMeasure::kLoss ? found < value : found > value);
    if (std::isnan(found) || !better) {
      ++since;
      return false;
    }
    step = at;
    value = found;
    since = 0;
    return true;
  }
  bool operator==(const BestEvaluation&) const = default;
};

// Returns "the validation loss has not improved in 5 evaluations (best 1.2345 at step 500)".
inline std::string describe(const BestEvaluation& best) {
  std::string text = fmt::format("the validation {} has not improved in {}", name_of(best.measure),
                                 format_count(best.since, "evaluation"));
  return best.step < 0 ? text : text + fmt::format(" (best {} at step {})", loss_text(best.value), best.step);
}

}  // namespace zero
