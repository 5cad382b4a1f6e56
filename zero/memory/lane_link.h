// LaneLink: the link of a device with lanes. What goes up is copied in kUp, what comes down in kDown.
//
//   LaneLink link(device, {.up = {Lane::kUpdate}, .down = {Lane::kUp, Lane::kUpdate}});
//   Transfer up = link.up(block, tile);       // behind all that is in kUpdate by now
//   up.wait();                                // the host waits for its mark
//
// Who knows which lanes use the device's end names them; without that, and beside(), a transfer comes after all lanes. The
// host's end is pinned memory, which belongs to the transfer. Where both ends are the same memory nothing crosses: whoever
// copies there by himself in the transfer's lane has its mark so. The transfer then counts the bytes, and time() the seconds.
//
// Times are the device's (LaneTimes): a transfer is busy while it is copied. Of the host's waits those seconds are not hidden in
// which kCompute had nothing to do. Local; one thread at a time.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "zero/device/device.h"
#include "zero/device/lane_times.h"
#include "zero/memory/link.h"

namespace zero {

class LaneLink final : public Link {
 public:
  // The lanes that a transfer of each direction comes after.
  struct Earlier {
    std::vector<Lane> up{kAllLanes.begin(), kAllLanes.end()}, down = up;
  };
  // `device` and `timeline` outlive it, and it its transfers.
  explicit LaneLink(Device& device, Timeline* timeline = nullptr) : LaneLink(device, Earlier{}, timeline) {}
  LaneLink(Device& device, Earlier earlier, Timeline* timeline = nullptr)
      : device_(&device),
        earlier_(std::move(earlier)),
        timeline_(timeline),
        up_times_(device, timeline),
        down_times_(device, timeline) {}

  [[nodiscard]] std::unique_ptr<Link> beside() const override {
    return std::make_unique<LaneLink>(*device_, timeline_);
  }
  LinkTraffic traffic() const override;
  // Times what is queued in the lane of that direction while it lives: a copy by who calls. `bytes` are for the timeline.
  LaneSpan time(Activity direction, int unit, std::int64_t bytes) {
    const bool up = direction == Activity::kLinkUp;
    return {up ? up_times_ : down_times_, up ? Lane::kUp : Lane::kDown, direction, unit, bytes};
  }
  // Bytes of such a copy that is part of no transfer.
  void count_up(std::int64_t bytes) { traffic_.up_bytes += bytes; }
  // kCompute comes after the last use of a block that has come up; seconds for which it has nothing to do meanwhile are not
  // hidden.
  void compute_after(const LastUse& use);

 private:
  class Queued;
  Transfer copy(Activity direction, std::span<std::byte> to, std::span<const std::byte> from, int unit) override;

  Device* device_;
  Earlier earlier_;
  Timeline* timeline_;
  mutable LaneTimes up_times_, down_times_;  // traffic() reads what has been done since
};

}  // namespace zero
