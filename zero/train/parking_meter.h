// ParkingMeter: what parking a rank's activations takes, step by step, for its report.
//
//   ParkingMeter meter(task.activations());     // null: nothing is parked, and nothing is added
//   meter.end_step();                           // after each step
//   meter.add_to(rank);                         // beside what the engine holds
//
// Local.
#pragma once

#include "zero/report/report.h"
#include "zero/torch/activation_store.h"

namespace zero {

class ParkingMeter {
 public:
  explicit ParkingMeter(const ActivationStore* store) : store_(store) {}

  void end_step();
  void add_to(RankReport& rank) const;
  // What crossed the link for them in the last step, and what went to disk and came back.
  LinkTraffic link() const { return now_.link - before_.link; }
  DiskTraffic disk() const { return now_.disk - before_.disk; }

 private:
  const ActivationStore* store_;
  ParkingReport before_;  // at the end of the step before the last
  ParkingReport now_;
};

}  // namespace zero
