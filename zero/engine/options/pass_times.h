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
