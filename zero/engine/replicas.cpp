#include "zero/engine/replicas.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#define XXH_INLINE_ALL  // a header is all that is taken
#include <xxhash.h>

#include "zero/base/check.h"
#include "zero/comm/collectives.h"
#include "zero/engine/sharded_state.h"

namespace zero {
namespace {

// The ranks whose hash is not the one that most have; all of them where two hashes are as frequent.
std::vector<int> outsiders(const std::vector<std::uint64_t>& by_rank) {
  std::map<std::uint64_t, std::size_t> counts;
  for (const std::uint64_t hash : by_rank) ++counts[hash];
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::ranges::max_element(counts, less);
  const bool alone = std::ranges::count(counts, most->second, [](const auto& entry) { return entry.second; }) == 1;
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (!alone || by_rank[rank] != most->first) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace

std::string ReplicaCheck::describe() const {
  if (!compared) return "nothing to compare";
  if (same()) return "all ranks hold the same";
  const std::string where = fmt::format("unit {} ({})", unit, unit_name);
  if (ranks.size() == 1) return fmt::format("rank {} differs in {}", ranks.front(), where);
  return fmt::format("ranks {} differ, first in {}", fmt::join(ranks, ", "), where);
}

std::uint64_t replica_hash(ShardedState& state, int unit) {
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  state.contents().read_replicated(
      unit, [&](std::span<const std::byte> elements) { XXH3_64bits_update(&hash, elements.data(), elements.size()); });
  return XXH3_64bits_digest(&hash);
}

ReplicaCheck compare_hashes(const std::vector<std::vector<std::uint64_t>>& hashes, const std::vector<Unit>& units) {
  ReplicaCheck check{.compared = hashes.size() > 1};
  std::vector<std::uint64_t> by_rank(hashes.size());
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    for (std::size_t rank = 0; rank < hashes.size(); ++rank) by_rank[rank] = hashes[rank][unit];
    if (std::ranges::adjacent_find(by_rank, std::ranges::not_equal_to{}) == by_rank.end()) continue;
    if (check.unit < 0) {
      check.unit = units[unit].index;
      check.unit_name = units[unit].name;
    }
    const std::vector<int> here = outsiders(by_rank);
    check.ranks.insert(check.ranks.end(), here.begin(), here.end());
  }
  std::ranges::sort(check.ranks);
  const auto repeated = std::ranges::unique(check.ranks);
  check.ranks.erase(repeated.begin(), repeated.end());
  return check;
}

ReplicaCheck compare_replicas(Communicator& comm, std::span<const std::uint64_t> mine, const std::vector<Unit>& units) {
  ZERO_CHECK(mine.size() == units.size(), "{} hashes of {} units", mine.size(), units.size());
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(comm.world()));
  all_gather(comm, std::as_bytes(mine), std::as_writable_bytes(std::span(all)), {.control = true});
  std::vector<std::vector<std::uint64_t>> hashes;
  for (auto rank = all.begin(); rank != all.end(); rank += static_cast<std::ptrdiff_t>(mine.size()))
    hashes.emplace_back(rank, rank + static_cast<std::ptrdiff_t>(mine.size()));
  return compare_hashes(hashes, units);
}

}  // namespace zero
