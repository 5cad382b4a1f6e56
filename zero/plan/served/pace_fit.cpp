#include "zero/plan/served/pace_fit.h"

#include <algorithm>
#include <cstdlib>

#include "zero/base/error/check.h"

namespace zero {
namespace {

constexpr double kShortest = 1e-9;
// two measurements are far enough apart if their samples differ by a fourth of the larger number
constexpr std::int64_t kFarApart = 4;

}  // namespace

RankPace PaceFit::learn(std::int64_t samples, double seconds) {
  ZERO_CHECK(samples > 0, "a measurement of {} samples", samples);
  seconds = std::max(seconds, kShortest);
  const double gained = seconds - seconds_;
  if (samples_ > 0 && std::abs(samples - samples_) * kFarApart >= std::max(samples, samples_)) {
    // The line through both measurements: seconds = sample * (fixed + samples).
    const bool is_line = gained * static_cast<double>(samples - samples_) > 0;
    fixed_ = is_line ? (seconds_ * static_cast<double>(samples) - seconds * static_cast<double>(samples_)) / gained : 0;
  }
  samples_ = samples;
  seconds_ = seconds;
  // kMostFixed as a number of samples: fixed / (fixed + samples) = kMostFixed.
  const double most = static_cast<double>(samples) * kMostFixed / (1 - kMostFixed);
  const double fixed = std::clamp(fixed_, 0.0, most);
  return {.sample = seconds / (fixed + static_cast<double>(samples)), .fixed = fixed};
}

}  // namespace zero
