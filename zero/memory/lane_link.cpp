#include "zero/memory/lane_link.h"

#include <algorithm>
#include <utility>

#include "zero/base/check.h"
#include "zero/base/clock.h"

namespace zero {

class LaneLink::Queued final : public Transfer::Pending {
 public:
  Queued(LaneLink& link, Mark mark, Activity direction, std::int64_t bytes, int unit)
      : device_(*link.device_),
        timeline_(link.timeline_),
        traffic_(link.traffic_),
        seen_at_(link.seen_at_),
        mark_(std::move(mark)),
        queued_at_(monotonic_seconds()),
        direction_(direction),
        bytes_(bytes),
        unit_(unit) {}

  void finish() override {
    if (poll()) return;
    const double begin = monotonic_seconds();
    {
      const TimedSpan waiting(timeline_, Activity::kWaitLink, unit_);
      device_.join(mark_);
    }
    const double waited = monotonic_seconds() - begin;
    traffic_.waited_seconds += waited;
    if (is_up()) traffic_.up_waited_seconds += waited;
    note_done();
  }

  bool poll() override {
    if (!done_ && device_.done(mark_)) note_done();
    return done_;
  }

 private:
  bool is_up() const { return direction_ == Activity::kLinkUp; }
  void note_done() {
    done_ = true;
    double& seen_at = (*seen_at_)[is_up() ? 0 : 1];
    const double begin = std::max(queued_at_, seen_at), end = std::max(monotonic_seconds(), begin);
    seen_at = end;
    traffic_.busy_seconds += end - begin;
    if (is_up()) traffic_.up_busy_seconds += end - begin;
    if (timeline_ != nullptr)
      timeline_->add({.begin = begin, .end = end, .bytes = bytes_, .unit = unit_, .activity = direction_});
  }

  Device& device_;
  Timeline* timeline_;
  LinkTraffic& traffic_;
  std::shared_ptr<std::array<double, 2>> seen_at_;
  Mark mark_;
  double queued_at_;
  Activity direction_;
  std::int64_t bytes_;
  int unit_;
  bool done_ = false;
};

std::unique_ptr<Link> LaneLink::beside() const {
  auto other = std::make_unique<LaneLink>(*this);
  other->traffic_ = {};
  other->earlier_ = {};
  return other;
}

Transfer LaneLink::copy(Activity direction, std::span<std::byte> to, std::span<const std::byte> from, int unit) {
  ZERO_CHECK(to.size() == from.size(), "{} bytes into {}", from.size(), to.size());
  const bool up = direction == Activity::kLinkUp;
  const auto bytes = static_cast<std::int64_t>(from.size());
  const Lane lane = up ? Lane::kUp : Lane::kDown;
  if (to.data() != from.data()) {
    for (const Lane earlier : up ? earlier_.up : earlier_.down) follow(*device_, lane, earlier);
    device_->copy(lane, to, from);
  }
  (up ? traffic_.up_bytes : traffic_.down_bytes) += bytes;
  return Transfer(std::make_unique<Queued>(*this, device_->mark(lane), direction, bytes, unit));
}

}  // namespace zero
