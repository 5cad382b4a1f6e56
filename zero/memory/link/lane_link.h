// LaneLink: the link of a device with lanes. It copies to the device in kUp, and to the host in kDown.
//
//   LaneLink link(device, {.up = {Lane::kUpdate}, .down = {Lane::kUp, Lane::kUpdate}});
//   Transfer up = link.up(block, tile);       // after all work queued in kUpdate so far
//   up.wait();                                // the host waits for its mark
//
// `Earlier` names the lanes that use the device's memory before a transfer. Without it, and after beside(), a transfer
// waits for all lanes. The host's memory is pinned, and belongs to the transfer. If both ends are the same memory,
// nothing is copied: the caller copies in the transfer's lane. The transfer then counts the bytes, and time() the
// seconds.
//
// Times are the device's (LaneTimes): a transfer is busy while it is copied. A host's wait counts as exposed for the
// seconds in which kCompute was idle. Local; one thread at a time.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "zero/device/device.h"
#include "zero/device/lane_times.h"
#include "zero/memory/link/link.h"

namespace zero {

class LaneLink final : public Link {
 public:
  // The lanes that a transfer of each direction waits for.
  struct Earlier {
    std::vector<Lane> up{kAllLanes.begin(), kAllLanes.end()}, down = up;
  };
  // `device` and `timeline` must outlive the link, and the link must outlive its transfers.
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
  // Reads the times of finished transfers; each keeps two marks of the device until then. traffic() also reads them.
  void read_times() const {
    up_times_.read();
    down_times_.read();
  }
  // Times work that the caller queues in the lane of that direction during its lifetime. `bytes`: for the timeline.
  LaneSpan time(Activity direction, int unit, std::int64_t bytes) {
    const bool up = direction == Activity::kLinkUp;
    return {up ? up_times_ : down_times_, up ? Lane::kUp : Lane::kDown, direction, unit, bytes};
  }
  // Counts bytes of such a copy that belongs to no transfer.
  void count_up(std::int64_t bytes) { traffic_.up_bytes += bytes; }
  // Makes kCompute wait for the last use of a block that was copied to the device. Seconds in which kCompute is idle
  // meanwhile count as exposed.
  void compute_after(const LastUse& use);

 private:
  class Queued;
  Transfer copy(Activity direction, std::span<std::byte> to, std::span<const std::byte> from, int unit) override;

  Device* device_;
  Earlier earlier_;
  Timeline* timeline_;
  mutable LaneTimes up_times_, down_times_;  // traffic() first reads the newly finished times
};

}  // namespace zero
