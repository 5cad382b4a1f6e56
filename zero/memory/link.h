// Link: the way between device and host. Transfers of one direction take turns, those of both go on beside each other.
//
//   Transfer up = link.up(to, from);          // begun
//   ...                                       // compute
//   up.wait();                                // waits for what is left
//
// Of a PacedLink (zero/memory/paced_link.h) device and host are both main memory, and time alone passes. A LaneLink
// (zero/memory/lane_link.h) copies in two lanes of a device. Local; one thread at a time.
#pragma once

#include <memory>
#include <span>

#include "zero/base/timeline.h"
#include "zero/memory/traffic.h"
#include "zero/memory/transfer.h"

namespace zero {

class Link {
 public:
  virtual ~Link() = default;

  // `to` holds the bytes when wait() has returned; until then both belong to the transfer. `unit`: whose bytes they
  // are, for the timeline.
  [[nodiscard]] Transfer up(std::span<std::byte> to, std::span<const std::byte> from, int unit = -1) {
    return copy(Activity::kLinkUp, to, from, unit);
  }
  [[nodiscard]] Transfer down(std::span<std::byte> to, std::span<const std::byte> from, int unit = -1) {
    return copy(Activity::kLinkDown, to, from, unit);
  }

  // Another way over the same link, with the same timeline: their transfers take turns. Each counts its own traffic.
  [[nodiscard]] virtual std::unique_ptr<Link> beside() const = 0;

  // So far. Of transfers in lanes: of those that the device has done.
  virtual LinkTraffic traffic() const { return traffic_; }
  // Seconds for which who called Transfer::wait() has waited. Of those traffic() counts the ones that nothing hid.
  double waited_seconds() const { return waited_seconds_; }

 protected:
  virtual Transfer copy(Activity direction, std::span<std::byte> to, std::span<const std::byte> from, int unit) = 0;

  LinkTraffic traffic_;
  double waited_seconds_ = 0;
};

}  // namespace zero
