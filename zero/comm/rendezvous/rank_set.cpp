#include "zero/comm/rendezvous/rank_set.h"

#include <fmt/format.h>

namespace zero {

RankSet set_of(const std::vector<int>& ranks) {
  RankSet set = 0;
  for (const int rank : ranks) set |= only(rank);
  return set;
}

std::vector<int> members_of(RankSet ranks) {
  std::vector<int> members;
  for (int rank = 0; rank < kMaxBoardRanks; ++rank)
    if ((ranks & only(rank)) != 0) members.push_back(rank);
  return members;
}

std::string format_ranks(RankSet ranks) {
  const std::vector<int> members = members_of(ranks);
  return fmt::format("{} {}", members.size() == 1 ? "rank" : "ranks", fmt::join(members, ", "));
}

}  // namespace zero
