#include "zero/engine/states/replicas.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#define XXH_INLINE_ALL  // only the header is used, no library
#include <xxhash.h>

#include "zero/comm/collectives.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/plan/units/partition.h"

namespace zero {
namespace {

// Returns the ranks whose hash is not the most frequent one; all ranks if two hashes are equally frequent.
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

// `read` passes the bytes to its argument, a function.
template <typename Read>
std::uint64_t hash_of(Read read) {
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  read([&](std::span<const std::byte> elements) { XXH3_64bits_update(&hash, elements.data(), elements.size()); });
  return XXH3_64bits_digest(&hash);
}

std::vector<int> all_ranks(const Mesh& mesh) {
  std::vector<int> ranks(static_cast<std::size_t>(mesh.world()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Compares only these ranks.
ReplicaCheck compare_some(const std::vector<std::vector<HeldHash>>& hashes, const std::vector<int>& ranks,
                          std::uint64_t HeldHash::*which, const std::vector<Unit>& units) {
  std::vector<std::vector<std::uint64_t>> some;
  for (const int rank : ranks) {
    some.emplace_back();
    for (const HeldHash& hash : hashes[static_cast<std::size_t>(rank)]) some.back().push_back(hash.*which);
  }
  ReplicaCheck check = compare_hashes(some, units);
  for (int& rank : check.ranks) rank = ranks[static_cast<std::size_t>(rank)];
  return check;
}

void add(ReplicaCheck& check, const ReplicaCheck& other) {
  check.compared = check.compared || other.compared;
  if (other.same()) return;
  if (check.unit < 0 || other.unit < check.unit)
    std::tie(check.unit, check.unit_name) = std::tie(other.unit, other.unit_name);
  check.ranks.insert(check.ranks.end(), other.ranks.begin(), other.ranks.end());
  std::ranges::sort(check.ranks);
  const auto repeated = std::ranges::unique(check.ranks);
  check.ranks.erase(repeated.begin(), repeated.end());
}

}  // namespace

std::string ReplicaCheck::describe() const {
  if (!compared) return "nothing to compare";
  if (same()) return "all ranks hold the same";
  const std::string where = fmt::format("unit {} ({})", unit, unit_name);
  if (ranks.size() == 1) return fmt::format("rank {} differs in {}", ranks.front(), where);
  return fmt::format("ranks {} differ, first in {}", fmt::join(ranks, ", "), where);
}

std::uint64_t replica_hash(ShardedState& state, int unit, HeldStates which) {
  return hash_of([&](const StateContents::ReplicaVisit& add) { state.contents().read_replicated(unit, add, which); });
}

bool weights_are_anchor(ShardedState& state, int unit) {
  StateContents& contents = state.contents();
  const auto hash_of_state = [&](int number) {
    const std::size_t size = size_of(contents.saved_dtype(unit, number));
    return hash_of([&](const StateContents::ReplicaVisit& add) {
      contents.read_shard(unit, number, [&](std::int64_t first, std::span<const std::byte> elements) {
        const Shard piece{first, static_cast<std::int64_t>(elements.size() / size)};
        for (const Slice& slice : owned_in(state.unit(unit), piece)) {
          const SlicePart part = overlap(slice, piece);
          if (part.numel == 0) continue;
          add(elements.subspan(static_cast<std::size_t>(part.offset - first) * size,
                               static_cast<std::size_t>(part.numel) * size));
        }
      });
    });
  };
  return hash_of_state(0) == hash_of_state(contents.num_saved_states(unit) - 1);
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

ReplicaCheck compare_hashes(const std::vector<std::vector<HeldHash>>& hashes, const Mesh& mesh,
                            const std::vector<Unit>& units) {
  ReplicaCheck check = compare_some(hashes, all_ranks(mesh), &HeldHash::whole, units);
  for (int place = 0; mesh.copies > 1 && place < mesh.shard; ++place)
    add(check, compare_some(hashes, mesh.ranks_of_shard(place), &HeldHash::sharded, units));
  for (int copy = 0; copy < mesh.copies; ++copy)
    add(check, compare_some(hashes, mesh.ranks_of_copy(copy), &HeldHash::apart, units));
  return check;
}

ReplicaCheck compare_replicas(Communicator& run, const Mesh& mesh, ShardedState& state) {
  std::vector<HeldHash> mine;
  for (const Unit& unit : state.units()) {
    const bool apart = unit.trainable && state.placement().merged_copies > 1;
    const HeldStates alike = apart ? HeldStates::kShared : HeldStates::kAll;
    mine.push_back({.whole = replica_hash(state, unit.index, alike)});
    if (mesh.copies > 1)
      mine.back().sharded = hash_of(
          [&](const StateContents::ReplicaVisit& add) { state.contents().read_sharded(unit.index, add, alike); });
    if (apart) mine.back().apart = replica_hash(state, unit.index, HeldStates::kOwn);
  }
  std::vector<HeldHash> all(mine.size() * static_cast<std::size_t>(run.world()));
  all_gather(run, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), {.control = true});
  std::vector<std::vector<HeldHash>> hashes;
  for (auto rank = all.begin(); rank != all.end(); rank += std::ssize(mine))
    hashes.emplace_back(rank, rank + std::ssize(mine));
  return compare_hashes(hashes, mesh, state.units());
}

}  // namespace zero
