#include "zero/engine/reduce/dropped_gradients.h"

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"

namespace zero {

bool leaves_gradients(Communicator& comm, const std::vector<bool>& dropped, const std::vector<bool>& present) {
  constexpr std::byte kDropped{1}, kPresent{2};
  const std::size_t num_params = dropped.size(), world = static_cast<std::size_t>(comm.world());
  const std::size_t bytes = (num_params + 7) / 8 * 8;
  std::vector<std::byte> all(world * bytes);
  const auto of_rank = [&](std::size_t rank) { return std::span(all).subspan(rank * bytes, bytes); };
  const std::span<std::byte> mine = of_rank(static_cast<std::size_t>(comm.rank()));
  for (std::size_t param = 0; param < num_params; ++param)
    mine[param] = (dropped[param] ? kDropped : std::byte{0}) | (present[param] ? kPresent : std::byte{0});
  all_gather(comm, mine, all, {.control = true});
  bool leaves = false;
  for (std::size_t rank = 0; rank < world; ++rank) {
    for (std::size_t param = 0; param < num_params; ++param) {
      const std::byte theirs = of_rank(rank)[param];
      if ((theirs & kDropped) != (of_rank(0)[param] & kDropped))
        throw ConfigError("zero_grad", fmt::format("rank {}", rank),
                          "it drops gradients of different parameters than rank 0",
                          "call zero_grad() or discard_gradients() on every rank, at the same place");
      leaves = leaves || theirs == kPresent;
    }
  }
  return leaves;
}

}  // namespace zero
