#include "tests/support/device/dropped_waits.h"

#include <fmt/format.h>

#include "zero/base/error/check.h"

namespace zero {

std::vector<DroppedWait> drop_each_wait(const std::function<void(RecordedDevice&)>& program) {
  RecordedDevice whole;
  program(whole);
  ZERO_CHECK(whole.races().empty(), "{}", whole.races().front().text);
  std::vector<DroppedWait> dropped;
  for (std::size_t number = 0; number < whole.waits().size(); ++number) {
    RecordedDevice device({.on_race = OnRace::kList, .dropped_wait = number});
    program(device);
    ZERO_CHECK(device.waits() == whole.waits(), "the program waits otherwise when it runs again");
    const std::string wait = fmt::format("wait {}: {}", number, whole.waits()[number]);
    if (!device.races().empty()) {
      dropped.push_back({WaitVerdict::kCaught, wait + "\n" + device.races().front().text});
    } else if (device.clocks() == whole.clocks()) {
      dropped.push_back({WaitVerdict::kImplied, wait + "\nis implied by others, or nothing comes after it"});
    } else {
      dropped.push_back({WaitVerdict::kIdle, wait + "\norders nothing that touches the same bytes"});
    }
  }
  return dropped;
}

}  // namespace zero
