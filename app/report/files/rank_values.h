// gather_ranks(): gathers plain values of all ranks, on every rank.
//
//   std::vector<std::vector<double>> seconds = gather_ranks<double>(comm, my_seconds);      // seconds[rank][step]
//
// Collective: every rank gives equally many values, which are not used after the call returns. The bytes count as
// control traffic, because they are no part of training.
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "zero/comm/collectives.h"

namespace zero {

template <typename T>
std::vector<std::vector<T>> gather_ranks(Communicator& comm, std::span<const T> mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto world = static_cast<std::size_t>(comm.world());
  std::vector<T> all(world * mine.size());
  all_gather(comm, std::as_bytes(mine), std::as_writable_bytes(std::span(all)), {.control = true});
  std::vector<std::vector<T>> ranks;
  for (std::size_t rank = 0; rank < world; ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * mine.size());
    ranks.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(mine.size()));
  }
  return ranks;
}

}  // namespace zero
