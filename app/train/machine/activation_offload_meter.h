// ActivationOffloadMeter: the bytes that offloading a rank's activations takes and moves, step by step, for its report.
//
//   ActivationOffloadMeter meter(task.activations());     // null: nothing is offloaded, and nothing is added
//   meter.end_step();                           // after each step
//   meter.add_to(rank);                         // added to the engine's memory
//
// Local.
#pragma once

#include "zero/torch/activations/activation_store.h"

#include "app/report/report.h"

namespace zero {

class ActivationOffloadMeter {
 public:
  explicit ActivationOffloadMeter(const ActivationStore* store) : store_(store) {}

  void end_step();
  void add_to(RankReport& rank) const;
  // Return the bytes of activations that crossed the link in the last step, and the bytes that were written to disk and
  // read back.
  LinkTraffic link() const { return now_.link - before_.link; }
  DiskTraffic disk() const { return now_.disk - before_.disk; }

 private:
  const ActivationStore* store_;
  ActivationOffloadReport before_;  // at the end of the last step but one
  ActivationOffloadReport now_;
};

}  // namespace zero
