// PacedLink: copies between device and host at a chosen bandwidth. It simulates PCIe if both are main memory.
//
//   PacedLink link(8e9);                      // bytes per second, each way
//   Transfer up = link.up(to, from);          // takes bytes / 8e9 seconds, after the transfers before it
//   up.wait();                                // sleeps for the remaining time
//
// So a test can show which transfers hide behind computation. The bytes are copied at once, and only the time passes
// later: `from` may be reused when up() returns. `to` and `from` may be the same memory; then only time passes. The
// timeline has each transfer from its turn on the link to its end, so these spans add up to busy_seconds. Local; one
// thread at a time.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "zero/memory/link/link.h"

namespace zero {

// The clock of transfers and waits: the machine's, or a test's.
class LinkClock {
 public:
  virtual ~LinkClock() = default;
  static const LinkClock& machine();

  virtual double now() const;  // in seconds
  virtual void sleep(double seconds) const;
};

class PacedLink final : public Link {
 public:
  // `timeline` and `clock` must outlive the link.
  explicit PacedLink(double bytes_per_second, Timeline* timeline = nullptr,
                     const LinkClock& clock = LinkClock::machine())
      : bytes_per_second_(bytes_per_second), timeline_(timeline), clock_(&clock) {}

  [[nodiscard]] std::unique_ptr<Link> beside() const override;

 private:
  class Timed;
  Transfer copy(Activity direction, std::span<std::byte> to, std::span<const std::byte> from, int unit) override;

  double bytes_per_second_;
  Timeline* timeline_;
  const LinkClock* clock_;
  // By direction: the time at which the last transfer will end. Links from beside() share it.
  std::shared_ptr<std::array<double, 2>> free_at_ = std::make_shared<std::array<double, 2>>();
};

}  // namespace zero
