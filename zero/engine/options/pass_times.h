// PassTimes: the seconds for which the passes of a step compute, and for which they wait for gathers and sums.
//
//   std::unique_ptr<PassTimes> times = make_pass_times(device, num_units, host, timeline);
//   times->comes(event);                 // each event of a step, before its actions are issued
//   times->goes_on();                    // after its actions, if the model may have waited
//   times->step_ends();
//   times->computed().backward_seconds   // of the last whole step; empty before the first
//
// If the host can read the device, the host's clock times the passes, and leaves out the engine's work. On other
// devices the host queues a pass long before the device computes it. There, marks in kCompute record when the device
// reaches and leaves each event. Passes and waits are then also spans of the timeline. Local.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "zero/base/process/timeline.h"
#include "zero/device/device.h"
#include "zero/engine/options/step_report.h"
#include "zero/plan/model/step_model.h"
#include "zero/plan/schedule/trace.h"

namespace zero {

// PassClock: measures the seconds of a step's passes, and when units are first used and their gradients complete.
//
//   PassClock clock(units.size(), computed);     // computed(): seconds on a clock that stops while moves wait
//   clock.note(event);                           // every event of a step, in order
//   clock.profile().backward_seconds             // of the last whole step; empty before the first
//
// With several micro-batches, the passes' seconds are summed, and the times of units are those of the last micro-batch.
// Local.
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

class PassTimes {
 public:
  virtual ~PassTimes() = default;
  virtual void comes(const Event& event) = 0;
  virtual void goes_on() {}
  virtual void step_ends() {}
  // Ignores the events since the last step.
  virtual void step_restarts() {}

  virtual const StepProfile& computed() const = 0;
  // Returns the seconds for gathers and sums in the forward passes of the last whole step.
  virtual double forward_waits() const = 0;
  // Returns the passes of the last step that the device has finished, with their waits; empty if the host computes.
  virtual std::optional<DevicePasses> of_device() const { return {}; }
};

// Seconds by the host's clock: `computed` stops while the engine works, and `exchanged` counts gathers and sums.
struct HostClocks {
  PassClock::Computed computed, exchanged;
};
// `device` and `timeline` must outlive the result.
std::unique_ptr<PassTimes> make_pass_times(Device& device, std::size_t num_units, HostClocks host, Timeline* timeline);

}  // namespace zero
