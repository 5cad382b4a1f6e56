// PacedLink: copies between device and host at a bandwidth of one's choice. It stands for PCIe where both are main memory,
// so that a test can show which transfers hide behind computation.
//
//   PacedLink link(8e9);                      // bytes per second, each way
//   Transfer up = link.up(to, from);          // begun: it will take bytes / 8e9 seconds, after those before it
//   up.wait();                                // sleeps for what is left
//
// The bytes are copied at once and only the time passes later: `from` may be used again when up() returns. `to` and `from`
// may be the same memory, whole: then time alone passes. A timeline gets each transfer from its turn on the link to its
// end, so that these spans add up to busy_seconds. Local; one thread at a time.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "zero/memory/link.h"

namespace zero {

// The time that transfers take and waiting passes: the machine's, or a test's own.
class LinkClock {
 public:
  virtual ~LinkClock() = default;
  static const LinkClock& machine();

  virtual double now() const;  // seconds
  virtual void sleep(double seconds) const;
};

class PacedLink final : public Link {
 public:
  // `timeline` and `clock` outlive it.
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
  // By direction: when the last transfer begun will be done. Of all links beside each other.
  std::shared_ptr<std::array<double, 2>> free_at_ = std::make_shared<std::array<double, 2>>();
};

}  // namespace zero
