// Link: the connection between device and host. Transfers of one direction take turns; both directions run in parallel.
//
//   Transfer up = link.up(to, from);          // begun
//   ...                                       // compute
//   up.wait();                                // waits for the rest
//
// With a PacedLink (zero/memory/link/paced_link.h) device and host are both main memory, and the link only takes time.
// A LaneLink (zero/memory/link/lane_link.h) copies in two lanes of a device. Local; one thread at a time.
#pragma once

#include <memory>
#include <span>

#include "zero/base/process/timeline.h"
#include "zero/memory/disk/traffic.h"
#include "zero/memory/io/transfer.h"

namespace zero {

class Link {
 public:
  virtual ~Link() = default;

  // `to` has the bytes when wait() has returned; until then both ranges belong to the transfer. `unit`: the unit of the
  // bytes, for the timeline.
  [[nodiscard]] Transfer up(std::span<std::byte> to, std::span<const std::byte> from, int unit = -1) {
    return copy(Activity::kLinkUp, to, from, unit);
  }
  [[nodiscard]] Transfer down(std::span<std::byte> to, std::span<const std::byte> from, int unit = -1) {
    return copy(Activity::kLinkDown, to, from, unit);
  }

  // Returns another object for the same link and timeline: their transfers take turns. Each counts its own traffic.
  [[nodiscard]] virtual std::unique_ptr<Link> beside() const = 0;

  // Returns the traffic so far; of transfers in lanes only those that the device has done.
  virtual LinkTraffic traffic() const { return traffic_; }
  // Returns the seconds that callers of Transfer::wait() have waited. traffic() counts only the exposed ones.
  double waited_seconds() const { return waited_seconds_; }

 protected:
  virtual Transfer copy(Activity direction, std::span<std::byte> to, std::span<const std::byte> from, int unit) = 0;

  LinkTraffic traffic_;
  double waited_seconds_ = 0;
};

}  // namespace zero
