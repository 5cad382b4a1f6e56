// PassTimes: the seconds for which the passes of a step compute, and those for which they wait for gathers and sums.
//
//   std::unique_ptr<PassTimes> times = make_pass_times(device, num_units, host, timeline);
//   times->comes(event);                 // each event of a step, before its actions are issued
//   times->goes_on();                    // after them, where the model may have waited
//   times->step_ends();
//   times->computed().backward_seconds   // of the last whole step; empty before the first
//
// Where the host can read the device, passes are timed by the host's clock, less what the engine does in them. Else the host
// queues a pass long before it is computed: marks in kCompute say when the device came to each event, and when it went on. Then
// passes and waits are spans of the timeline, too. Local.
#pragma once

#include <memory>
#include <optional>

#include "zero/base/process/timeline.h"
#include "zero/device/device.h"
#include "zero/engine/options/pass_clock.h"
#include "zero/engine/options/step_report.h"

namespace zero {

class PassTimes {
 public:
  virtual ~PassTimes() = default;
  virtual void comes(const Event& event) = 0;
  virtual void goes_on() {}
  virtual void step_ends() {}
  // The events since the last step do not count.
  virtual void step_restarts() {}

  virtual const StepProfile& computed() const = 0;
  // For gathers and sums, in the forward passes of the last whole step.
  virtual double forward_waits() const = 0;
  // The passes of the last step that the device has done, with their waits; nothing where the host computes.
  virtual std::optional<DevicePasses> of_device() const { return {}; }
};

// Seconds so far by the host's clock: on one that stands still while the engine works, and of gathers and sums.
struct HostClocks {
  PassClock::Computed computed, exchanged;
};
// `device` and `timeline` outlive it.
std::unique_ptr<PassTimes> make_pass_times(Device& device, std::size_t num_units, HostClocks host, Timeline* timeline);

}  // namespace zero
