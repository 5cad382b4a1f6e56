// DroppedWait: the effect of removing one wait from a program on a device. Tests use it to show that each wait is
// needed.
//
//   for (const DroppedWait& wait : drop_each_wait(program)) EXPECT_EQ(wait.verdict, WaitVerdict::kCaught) << wait.text;
//
// It also shows that the test notices a missing wait. Local.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/device/recorded_device.h"

namespace zero {

enum class WaitVerdict {
  kCaught,   // without it there is a race
  kImplied,  // without it the order is the same: other waits imply it, or nothing follows it
  kIdle,     // without it there is less order, but no race: it orders no accesses to the same bytes
};

struct DroppedWait {
  WaitVerdict verdict;
  std::string text;  // the wait, and the first race without it
};

// Runs the program once as it is, which must have no race (InternalError), and once without each of its waits. The
// program must queue the same operations every time, and free all its memory.
std::vector<DroppedWait> drop_each_wait(const std::function<void(RecordedDevice&)>& program);

}  // namespace zero
