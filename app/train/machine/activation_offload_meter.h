// ActivationOffloadMeter: what activation_offload a rank's activations takes, step by step, for its report.
//
//   ActivationOffloadMeter meter(task.activations());     // null: nothing is offloaded, and nothing is added
//   meter.end_step();                           // after each step
//   meter.add_to(rank);                         // beside what the engine holds
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
  // What crossed the link for them in the last step, and what went to disk and came back.
  LinkTraffic link() const { return now_.link - before_.link; }
  DiskTraffic disk() const { return now_.disk - before_.disk; }

 private:
  const ActivationStore* store_;
  ActivationOffloadReport before_;  // at the end of the step before the last
  ActivationOffloadReport now_;
};

}  // namespace zero
