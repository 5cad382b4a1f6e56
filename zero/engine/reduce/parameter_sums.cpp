#include "zero/engine/reduce/parameter_sums.h"

#include <type_traits>

#include "zero/comm/collectives.h"

namespace zero {

std::vector<double> sums_over_ranks(Communicator& comm, std::span<const ExactSum> mine) {
  static_assert(std::is_trivially_copyable_v<ExactSum>);
  std::vector<ExactSum> all(mine.size() * static_cast<std::size_t>(comm.world()));
  all_gather(comm, std::as_bytes(mine), std::as_writable_bytes(std::span(all)), {.control = true});
  std::vector<double> sums(mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    ExactSum sum;
    for (std::size_t at = i; at < all.size(); at += mine.size()) sum.add(all[at]);
    sums[i] = sum.value();
  }
  return sums;
}

}  // namespace zero
