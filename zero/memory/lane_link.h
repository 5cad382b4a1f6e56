// LaneLink: the link of a device with lanes. What goes up is copied in kUp, what comes down in kDown.
//
//   LaneLink link(device, {.up = {Lane::kUpdate}, .down = {Lane::kUp, Lane::kUpdate}});
//   Transfer up = link.up(block, tile);       // behind all that is in kUpdate by now
//   up.wait();                                // the host waits for its mark
//
// Who knows which lanes use the device's end names them; without that, and beside(), a transfer comes after all lanes. The
// host's end is pinned memory, which belongs to the transfer. Where both ends are the same memory nothing crosses: whoever
// copies there by himself in the transfer's lane has its mark so. A transfer's seconds are those from its turn to the moment
// at which somebody saw it done. Local; one thread at a time.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "zero/device/device.h"
#include "zero/memory/link.h"

namespace zero {

class LaneLink final : public Link {
 public:
  // The lanes that a transfer of each direction comes after.
  struct Earlier {
    std::vector<Lane> up{kAllLanes.begin(), kAllLanes.end()}, down = up;
  };
  // `device` and `timeline` outlive it.
  explicit LaneLink(Device& device, Timeline* timeline = nullptr) : LaneLink(device, Earlier{}, timeline) {}
  LaneLink(Device& device, Earlier earlier, Timeline* timeline = nullptr)
      : device_(&device), earlier_(std::move(earlier)), timeline_(timeline) {}

  [[nodiscard]] std::unique_ptr<Link> beside() const override;

 private:
  class Queued;
  Transfer copy(Activity direction, std::span<std::byte> to, std::span<const std::byte> from, int unit) override;

  Device* device_;
  Earlier earlier_;
  Timeline* timeline_;
  // By direction: when the last transfer was seen done. Of all links beside each other.
  std::shared_ptr<std::array<double, 2>> seen_at_ = std::make_shared<std::array<double, 2>>();
};

}  // namespace zero
