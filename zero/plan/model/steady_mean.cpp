#include "zero/plan/model/steady_mean.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "zero/base/error/check.h"

namespace zero {
namespace {

// The middle half of the sorted steps.
struct Middle {
  std::vector<double> sorted;
  explicit Middle(std::span<const double> seconds) : sorted(seconds.begin(), seconds.end()) {
    ZERO_CHECK(sorted.size() >= SteadyMean::kPeriod, "a mean of {} steps", sorted.size());
    std::ranges::sort(sorted);
  }
  std::span<const double> half() const {
    const std::size_t left_out = sorted.size() / 4;
    return std::span(sorted).subspan(left_out, sorted.size() - 2 * left_out);
  }
  double mean() const {
    return std::accumulate(half().begin(), half().end(), 0.0) / static_cast<double>(half().size());
  }
};

}  // namespace

void SteadyMean::add(double seconds) {
  if (seconds_.size() == kMost) seconds_.erase(seconds_.begin(), seconds_.begin() + kPeriod);
  seconds_.push_back(seconds);
  if (!is_due() || seconds_.size() == kPeriod) return;
  const auto before = std::span(seconds_).first(seconds_.size() - kPeriod);
  const double was = Middle(before).mean();
  if (std::abs(Middle(std::span(seconds_).last(kPeriod)).mean() - was) > kDeparts * was)
    seconds_.erase(seconds_.begin(), seconds_.end() - kPeriod);
}

double SteadyMean::value() const {
  return Middle(seconds_).mean();
}

// Returns the standard error of a trimmed mean (Tukey, McLaughlin 1963). Trimmed steps are replaced by the nearest
// remaining ones. The error is the standard error of that sample over the remaining share.
double SteadyMean::error() const {
  const Middle middle(seconds_);
  const auto half = middle.half();
  std::vector<double> drawn_in = middle.sorted;
  for (double& seconds : drawn_in) seconds = std::clamp(seconds, half.front(), half.back());
  const auto number = static_cast<double>(drawn_in.size());
  const double mean = std::accumulate(drawn_in.begin(), drawn_in.end(), 0.0) / number;
  double squares = 0;
  for (const double seconds : drawn_in) squares += (seconds - mean) * (seconds - mean);
  return std::sqrt(squares / (number - 1)) / (static_cast<double>(half.size()) / number * std::sqrt(number));
}

}  // namespace zero
