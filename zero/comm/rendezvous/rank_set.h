// RankSet: some of the ranks of one machine, a bit for each. Values.
//
//   RankSet arrived = only(0);
//   format_ranks(first_ranks(4) & ~arrived)   // "ranks 1, 2, 3"
//   members_of(set_of({3, 1}))                // {1, 3}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zero {

constexpr int kMaxBoardRanks = 64;  // a set of ranks is one word

using RankSet = std::uint64_t;
constexpr RankSet only(int rank) {
  return RankSet{1} << rank;
}
// Returns ranks 0 to world - 1.
constexpr RankSet first_ranks(int world) {
  return world == 64 ? ~RankSet{0} : only(world) - 1;
}
RankSet set_of(const std::vector<int>& ranks);
std::vector<int> members_of(RankSet ranks);  // ascending
std::string format_ranks(RankSet ranks);     // returns "rank 3" or "ranks 1, 3"

}  // namespace zero
