#include "zero/rendezvous/rank_set.h"

#include <fmt/format.h>

namespace zero {

std::string format_ranks(RankSet ranks) {
  std::string list;
  int count = 0;
  for (int rank = 0; rank < kMaxBoardRanks; ++rank) {
    if ((ranks & only(rank)) == 0) continue;
    list += fmt::format("{}{}", count++ == 0 ? "" : ", ", rank);
  }
  return fmt::format("{} {}", count == 1 ? "rank" : "ranks", list);
}

}  // namespace zero
