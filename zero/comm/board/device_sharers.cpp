#include "zero/comm/board/device_sharers.h"

#include <algorithm>
#include <string>

#include "zero/comm/collectives.h"

namespace zero {

int num_sharers(const Device& device, Communicator& comm) {
  const std::string mine(device.identity());
  const auto all = all_gather_text(comm, mine);
  return mine.empty() ? 1 : static_cast<int>(std::ranges::count(all, mine));
}

}  // namespace zero
