#include "zero/memory/link.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "zero/base/check.h"
#include "zero/base/clock.h"

namespace zero {

class Link::Timed final : public Transfer::Pending {
 public:
  Timed(double done_at, LinkTraffic& traffic, Timeline* timeline, int unit)
      : done_at_(done_at), traffic_(traffic), timeline_(timeline), unit_(unit) {}
  void finish() override {
    const double left = done_at_ - monotonic_seconds();
    if (left <= 0) return;
    const TimedSpan waiting(timeline_, Activity::kWaitLink, unit_);
    std::this_thread::sleep_for(std::chrono::duration<double>(left));
    traffic_.waited_seconds += left;
  }
  bool poll() override { return monotonic_seconds() >= done_at_; }

 private:
  double done_at_;
  LinkTraffic& traffic_;
  Timeline* timeline_;
  int unit_;
};

Transfer Link::copy(Activity direction, std::span<std::byte> to, std::span<const std::byte> from, int unit) {
  ZERO_CHECK(to.size() == from.size(), "{} bytes into {}", from.size(), to.size());
  std::memcpy(to.data(), from.data(), from.size());
  const auto bytes = static_cast<std::int64_t>(from.size());
  const double seconds = static_cast<double>(bytes) / bytes_per_second_;
  const bool up = direction == Activity::kLinkUp;
  double& free_at = free_at_[up ? 0 : 1];
  const double begin = std::max(free_at, monotonic_seconds());
  free_at = begin + seconds;
  (up ? traffic_.up_bytes : traffic_.down_bytes) += bytes;
  traffic_.busy_seconds += seconds;
  if (timeline_ != nullptr)
    timeline_->add({.begin = begin, .end = free_at, .bytes = bytes, .unit = unit, .activity = direction});
  return Transfer(std::make_unique<Timed>(free_at, traffic_, timeline_, unit));
}

}  // namespace zero
