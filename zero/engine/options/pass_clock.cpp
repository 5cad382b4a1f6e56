#include "zero/engine/options/pass_clock.h"

#include <algorithm>
#include <utility>

namespace zero {

void PassClock::Pass::start(double now, std::size_t num_units) {
  begin = end = now;
  at.assign(num_units, -1);
}

void PassClock::Pass::meet(int unit, double now, bool again) {
  end = now;
  double& met = at[static_cast<std::size_t>(unit)];
  if (again || met < 0) met = now - begin;
}

std::vector<double> PassClock::Pass::shares(double unmet) const {
  std::vector<double> shares;
  for (const double met : at)
    shares.push_back(met < 0 ? unmet : seconds() > 0 ? std::clamp(met / seconds(), 0.0, 1.0) : unmet);
  return shares;
}

void PassClock::note(const Event& event) {
  const double now = computed_();
  switch (event.kind) {
    case EventKind::kAccess:
      if (in_backward_ && event.micro_batch == backward_of_) {
        backward_.end = now;
        return;
      }
      if (!std::exchange(in_forward_, true)) forward_.start(now, num_units_);
      forward_.meet(event.unit, now, /*again=*/false);
      return;
    case EventKind::kBackward:
      if (std::exchange(in_forward_, false)) {
        forward_.end = now;
        running_.forward_seconds += forward_.seconds();
        running_.used_at = forward_.shares(/*unmet=*/1);
      }
      backward_.start(now, num_units_);
      in_backward_ = true;
      backward_of_ = event.micro_batch;
      return;
    case EventKind::kGradient:
      backward_.meet(event.unit, now, /*again=*/true);
      return;
    case EventKind::kEndBackward:  // perhaps long after the last gradient
      running_.backward_seconds += backward_.seconds();
      running_.gradient_at = backward_.shares(/*unmet=*/0);
      in_backward_ = false;
      return;
    case EventKind::kStep:
      profile_ = std::exchange(running_, {});
      in_forward_ = false;
      return;
  }
}

void PassClock::restart() {
  running_ = {};
  in_forward_ = in_backward_ = false;
}

}  // namespace zero
