// SimulatedTime: a clock of a link that stands still but while somebody computes or waits for the link.
//
//   SimulatedTime time;
//   PacedLink link(1e6, nullptr, time);
//   link.up(to, from).wait();      // time.now() is from.size() / 1e6 later, however slow the machine is
//
// Of one thread.
#pragma once

#include "zero/memory/link/paced_link.h"

namespace zero {

class SimulatedTime final : public LinkClock {
 public:
  // A timeline wants spans that begin after its own start on the machine's clock: monotonic_seconds() then.
  explicit SimulatedTime(double begin = 0) : now_(begin) {}
  double now() const override { return now_; }
  void sleep(double seconds) const override { now_ += seconds; }
  void compute(double seconds) { now_ += seconds; }

 private:
  mutable double now_;
};

}  // namespace zero
