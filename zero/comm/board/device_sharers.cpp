#include "zero/comm/board/device_sharers.h"

#include <algorithm>
#include <string>

#include "zero/comm/collectives.h"

namespace zero {

int num_sharers(const Device& device, Communicator& comm, int otherwise) {
  const std::string mine(device.identity());
  const auto all = all_gather_text(comm, mine);
  return mine.empty() ? otherwise : static_cast<int>(std::ranges::count(all, mine));
}

}  // namespace zero
