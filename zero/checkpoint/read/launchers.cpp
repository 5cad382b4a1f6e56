#include "zero/checkpoint/read/launchers.h"

#include <algorithm>
#include <string>

#include "zero/comm/collectives.h"

namespace zero {

Launchers::Launchers(Communicator& comm, std::string_view name) {
  const std::vector<std::string> names = all_gather_text(comm, name);
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const auto lowest = std::ranges::find(names, names[rank]) - names.begin();
    if (lowest == static_cast<std::ptrdiff_t>(rank)) first_ranks_.push_back(static_cast<int>(rank));
    of_.push_back(lowest == static_cast<std::ptrdiff_t>(rank) ? count() - 1 : of_[static_cast<std::size_t>(lowest)]);
  }
}

}  // namespace zero
