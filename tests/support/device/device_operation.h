// DeviceOperation: one operation of a lane, or of the host, in a RecordedDevice.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/device/vector_clock.h"

namespace zero {

struct DeviceOperation {
  std::uint64_t number = 0;
  Actor actor = kHostActor;
  std::string name;   // "copy", "kernel scale"
  VectorClock clock;  // all operations before it, and itself

  bool comes_after(const DeviceOperation& earlier) const { return clock.covers(earlier.actor, earlier.number); }
};

}  // namespace zero
