// DroppedWait: what happens to a program on a device when one of its waits is missing. For tests that show that each
// wait is needed, and that the test notices.
//
//   for (const DroppedWait& wait : drop_each_wait(program)) EXPECT_EQ(wait.verdict, WaitVerdict::kCaught) << wait.text;
//
// Local.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "zero/device/recorded_device.h"

namespace zero {

enum class WaitVerdict {
  kCaught,   // without it there is a race
  kImplied,  // without it everything comes in the same order: other waits say the same, or nothing comes after it
  kIdle,     // without it there is less order, and no race: it orders nothing that touches the same bytes
};

struct DroppedWait {
  WaitVerdict verdict;
  std::string text;  // the wait, and the first race without it
};

// The program runs once as it is, and must have no race (InternalError), and then once without each of its waits. It
// queues the same operations every time, and gives back all that it allocates.
std::vector<DroppedWait> drop_each_wait(const std::function<void(RecordedDevice&)>& program);

}  // namespace zero
