// Link: copies between device and host at a bandwidth of one's choice. It stands for PCIe where device and host are
// both main memory, so that a test can show which transfers hide behind computation.
//
//   Link link(8e9);                           // bytes per second, each way
//   Transfer up = link.up(to, from);          // begun: it will take bytes / 8e9 seconds, after those before it
//   ...                                       // compute
//   up.wait();                                // sleeps for what is left
//
// The bytes are copied at once and only the time passes later: `from` may be used again when up() returns, `to` holds
// the result when wait() has returned. They may be the same memory, whole: then time alone passes. A timeline gets each
// transfer from its turn on the link to its end, so that these spans add up to busy_seconds. Local; one thread at a
// time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "zero/base/timeline.h"
#include "zero/memory/traffic.h"
#include "zero/memory/transfer.h"

namespace zero {

// The time that transfers take and waiting passes: the machine's, or a test's own.
class LinkClock {
 public:
  virtual ~LinkClock() = default;
  static const LinkClock& machine();

  virtual double now() const;  // seconds
  virtual void sleep(double seconds) const;
};

class Link {
 public:
  // `timeline` and `clock` outlive it.
  explicit Link(double bytes_per_second, Timeline* timeline = nullptr, const LinkClock& clock = LinkClock::machine())
      : bytes_per_second_(bytes_per_second), timeline_(timeline), clock_(&clock) {}

  // From now on both stand for one link and one timeline: their transfers take turns. Each counts its own traffic.
  void share(const Link& other) {
    bytes_per_second_ = other.bytes_per_second_;
    timeline_ = other.timeline_;
    clock_ = other.clock_;
    free_at_ = other.free_at_;
  }

  // `unit`: whose bytes they are, for the timeline.
  [[nodiscard]] Transfer up(std::span<std::byte> to, std::span<const std::byte> from, int unit = -1) {
    return copy(Activity::kLinkUp, to, from, unit);
  }
  [[nodiscard]] Transfer down(std::span<std::byte> to, std::span<const std::byte> from, int unit = -1) {
    return copy(Activity::kLinkDown, to, from, unit);
  }

  const LinkTraffic& traffic() const { return traffic_; }

 private:
  class Timed;
  Transfer copy(Activity direction, std::span<std::byte> to, std::span<const std::byte> from, int unit);

  double bytes_per_second_;
  Timeline* timeline_;
  const LinkClock* clock_;
  // By direction: when the last transfer begun will be done.
  std::shared_ptr<std::array<double, 2>> free_at_ = std::make_shared<std::array<double, 2>>();
  LinkTraffic traffic_;
};

}  // namespace zero
