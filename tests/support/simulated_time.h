// SimulatedTime: the clock of a link. It advances only while the program computes (compute()) or waits for the link.
//
//   SimulatedTime time;
//   PacedLink link(1e6, nullptr, time);
//   link.up(to, from).wait();      // time.now() advances by from.size() / 1e6, on any machine
//
// For one thread.
#pragma once

#include "zero/memory/link/paced_link.h"

namespace zero {

class SimulatedTime final : public LinkClock {
 public:
  // `begin`: monotonic_seconds() if a timeline is used, because its spans must begin after its own start on that clock.
  explicit SimulatedTime(double begin = 0) : now_(begin) {}
  double now() const override { return now_; }
  void sleep(double seconds) const override { now_ += seconds; }
  void compute(double seconds) { now_ += seconds; }

 private:
  mutable double now_;
};

}  // namespace zero
