#include "zero/memory/link/lane_link.h"

#include <utility>

#include "zero/base/error/check.h"
#include "zero/base/process/clock.h"

namespace zero {

class LaneLink::Queued final : public Transfer::Pending {
 public:
  Queued(LaneLink& link, LaneTimes& times, Mark mark, int unit)
      : link_(link), times_(times), mark_(std::move(mark)), unit_(unit) {}

  // Waits. Meanwhile kCompute continues with its queued work; it is idle from the first mark to the second.
  void finish() override {
    if (poll()) return;
    const double begin = monotonic_seconds();
    Mark computed = times_.mark(Lane::kCompute);
    link_.device_->join(mark_);
    times_.add(Activity::kWaitLink, unit_, 0, std::move(computed), times_.mark(Lane::kCompute));
    link_.waited_seconds_ += monotonic_seconds() - begin;
    done_ = true;
  }

  bool poll() override {
    done_ = done_ || link_.device_->done(mark_);
    return done_;
  }

 private:
  LaneLink& link_;
  LaneTimes& times_;
  Mark mark_;
  int unit_;
  bool done_ = false;
};

LinkTraffic LaneLink::traffic() const {
  read_times();
  LinkTraffic traffic = traffic_;
  traffic.up_busy_seconds = up_times_.seconds(Activity::kLinkUp);
  traffic.up_waited_seconds = up_times_.seconds(Activity::kWaitLink);
  traffic.busy_seconds = traffic.up_busy_seconds + down_times_.seconds(Activity::kLinkDown);
  traffic.waited_seconds = traffic.up_waited_seconds + down_times_.seconds(Activity::kWaitLink);
  return traffic;
}

void LaneLink::compute_after(const LastUse& use) {
  if (use.lane == Lane::kCompute) return;
  Mark computed = up_times_.mark(Lane::kCompute);
  follow(*device_, Lane::kCompute, use);
  up_times_.add(Activity::kWaitLink, -1, 0, std::move(computed), up_times_.mark(Lane::kCompute));
}

Transfer LaneLink::copy(Activity direction, std::span<std::byte> to, std::span<const std::byte> from, int unit) {
  ZERO_CHECK(to.size() == from.size(), "{} bytes into {}", from.size(), to.size());
  const bool up = direction == Activity::kLinkUp;
  const auto bytes = static_cast<std::int64_t>(from.size());
  const Lane lane = up ? Lane::kUp : Lane::kDown;
  LaneTimes& times = up ? up_times_ : down_times_;
  if (to.data() != from.data()) {
    for (const Lane earlier : up ? earlier_.up : earlier_.down) follow(*device_, lane, earlier);
    const LaneSpan span = time(direction, unit, bytes);
    device_->copy(lane, to, from);
  }
  (up ? traffic_.up_bytes : traffic_.down_bytes) += bytes;
  return Transfer(std::make_unique<Queued>(*this, times, device_->mark(lane), unit));
}

}  // namespace zero
