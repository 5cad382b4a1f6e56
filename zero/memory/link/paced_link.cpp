#include "zero/memory/link/paced_link.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "zero/base/error/check.h"
#include "zero/base/process/clock.h"

namespace zero {
const LinkClock& LinkClock::machine() {
  static const LinkClock clock;
  return clock;
}
double LinkClock::now() const {
  return monotonic_seconds();
}
void LinkClock::sleep(double seconds) const {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

class PacedLink::Timed final : public Transfer::Pending {
 public:
  Timed(PacedLink& link, double done_at, bool up, int unit) : link_(link), done_at_(done_at), up_(up), unit_(unit) {}
  void finish() override {
    const double left = done_at_ - link_.clock_->now();
    if (left <= 0) return;
    const TimedSpan waiting(link_.timeline_, Activity::kWaitLink, unit_);
    link_.clock_->sleep(left);
    link_.waited_seconds_ += left;
    link_.traffic_.waited_seconds += left;
    if (up_) link_.traffic_.up_waited_seconds += left;
  }
  bool poll() override { return link_.clock_->now() >= done_at_; }

 private:
  PacedLink& link_;
  double done_at_;
  bool up_;
  int unit_;
};

std::unique_ptr<Link> PacedLink::beside() const {
  auto other = std::make_unique<PacedLink>(*this);
  other->traffic_ = {};
  other->waited_seconds_ = 0;
  return other;
}

Transfer PacedLink::copy(Activity direction, std::span<std::byte> to, std::span<const std::byte> from, int unit) {
  ZERO_CHECK(to.size() == from.size(), "{} bytes into {}", from.size(), to.size());
  if (to.data() != from.data()) std::memcpy(to.data(), from.data(), from.size());
  const auto bytes = static_cast<std::int64_t>(from.size());
  const double seconds = static_cast<double>(bytes) / bytes_per_second_;
  const bool up = direction == Activity::kLinkUp;
  double& free_at = (*free_at_)[up ? 0 : 1];
  const double begin = std::max(free_at, clock_->now());
  free_at = begin + seconds;
  (up ? traffic_.up_bytes : traffic_.down_bytes) += bytes;
  traffic_.busy_seconds += seconds;
  if (up) traffic_.up_busy_seconds += seconds;
  if (timeline_ != nullptr)
    timeline_->add({.begin = begin, .end = free_at, .bytes = bytes, .unit = unit, .activity = direction});
  return Transfer(std::make_unique<Timed>(*this, free_at, up, unit));
}

}  // namespace zero
