// PassClock: measures the seconds of a step's passes, and when units are first used and their gradients complete.
//
//   PassClock clock(units.size(), computed);     // computed(): seconds on a clock that stops while moves wait
//   clock.note(event);                           // every event of a step, in order
//   clock.profile().backward_seconds             // of the last whole step; empty before the first
//
// With several micro-batches, the passes' seconds are summed, and the times of units are those of the last micro-batch.
// Local.
#pragma once

#include <functional>

#include "zero/plan/model/step_model.h"
#include "zero/plan/schedule/trace.h"

namespace zero {

class PassClock {
 public:
  using Computed = std::function<double()>;
  PassClock(std::size_t num_units, Computed computed) : num_units_(num_units), computed_(std::move(computed)) {}

  void note(const Event& event);
  // Begins the running step again: its passes so far do not count.
  void restart();
  // Returns the profile, without the number of gathers, which the schedule counts.
  const StepProfile& profile() const { return profile_; }

 private:
  struct Pass {
    double begin = 0;
    double end = 0;
    std::vector<double> at;  // by unit: seconds into the pass; negative: not used
    double seconds() const { return end - begin; }
    void start(double now, std::size_t num_units);
    void meet(int unit, double now, bool again);
    std::vector<double> shares(double unmet) const;
  };

  std::size_t num_units_;
  Computed computed_;
  Pass forward_, backward_;
  bool in_forward_ = false;
  bool in_backward_ = false;
  int backward_of_ = 0;  // its micro-batch
  StepProfile running_, profile_;
};

}  // namespace zero
