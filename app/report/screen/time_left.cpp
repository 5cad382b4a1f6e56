#include "app/report/screen/time_left.h"

#include <algorithm>

namespace zero {
namespace {

constexpr std::size_t kNumRecent = 64;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void TimeLeft::step(double seconds) {
  if (recent_.size() < kNumRecent) {
    recent_.push_back(seconds);
    return;
  }
  recent_[next_] = seconds;
  next_ = (next_ + 1) % kNumRecent;
}

double TimeLeft::seconds(std::int64_t step) const {
  step = std::min(step, steps_);
  // Evaluations after `step` and before the last step.
  const std::int64_t between = pace_.every > 0 && step < steps_ ? (steps_ - 1) / pace_.every - step / pace_.every : 0;
  const bool one_more = pace_.compares && pace_.every > 0 && step < steps_;
  const std::int64_t evaluations = between + (one_more ? 1 : 0) + (pace_.last_alike ? 1 : 0);
  return median(recent_) * static_cast<double>(steps_ - step) + evaluation_seconds_ * static_cast<double>(evaluations);
}

}  // namespace zero
