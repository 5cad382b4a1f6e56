// LaneLink: the link of a device with lanes. What goes up is copied in kUp, what comes down in kDown.
//
//   LaneLink link(device);
//   Transfer up = link.up(block, tile);       // queued behind all that is on the device by now
//   up.wait();                                // the host waits for its mark
//
// The host's end is pinned memory. Where both ends are the same memory nothing crosses: it is no end of this link. A transfer's seconds are those from its turn to the moment at which somebody saw it done. Local; one
// thread at a time.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "zero/device/device.h"
#include "zero/memory/link.h"

namespace zero {

class LaneLink final : public Link {
 public:
  // `device` and `timeline` outlive it.
  explicit LaneLink(Device& device, Timeline* timeline = nullptr) : device_(&device), timeline_(timeline) {}

  [[nodiscard]] std::unique_ptr<Link> beside() const override;

 private:
  class Queued;
  Transfer copy(Activity direction, std::span<std::byte> to, std::span<const std::byte> from, int unit) override;

  Device* device_;
  Timeline* timeline_;
  // By direction: when the last transfer was seen done. Of all links beside each other.
  std::shared_ptr<std::array<double, 2>> seen_at_ = std::make_shared<std::array<double, 2>>();
};

}  // namespace zero
