#include "zero/engine/states/parameter_writes.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#define XXH_INLINE_ALL  // only the header is used, no library
#include <xxhash.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"

namespace zero {

std::uint64_t bytes_hash(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

ParameterWrites::ParameterWrites(std::size_t num_params, int ranks_alike, bool elsewhere)
    : ranks_alike_(ranks_alike), elsewhere_(elsewhere), changes_(num_params, 0), before_(num_params, 0) {}

void ParameterWrites::begin(int param, std::uint64_t hash) {
  before_[static_cast<std::size_t>(param)] = hash;
}

void ParameterWrites::end(int param, std::uint64_t hash) {
  std::uint64_t& before = before_[static_cast<std::size_t>(param)];
  if (before == hash) return;
  before = hash;  // an operator may name a parameter twice
  std::int64_t& changes = changes_[static_cast<std::size_t>(param)];
  const std::array<std::uint64_t, 2> both{static_cast<std::uint64_t>(changes), hash};
  changes = static_cast<std::int64_t>(bytes_hash(std::as_bytes(std::span(both))));
}

void ParameterWrites::forget() {
  changes_.assign(changes_.size(), 0);
}

std::uint64_t ParameterWrites::hash() const {
  const bool any = std::ranges::any_of(changes_, [](std::int64_t changes) { return changes != 0; });
  return any ? bytes_hash(std::as_bytes(std::span(changes_))) : 0;
}

std::size_t ParameterWrites::first_alike(std::size_t rank) const {
  const auto alike = static_cast<std::size_t>(std::max(ranks_alike_, 1));
  return rank / alike * alike;
}

bool ParameterWrites::same(const std::vector<std::uint64_t>& hashes) const {
  for (std::size_t rank = 0; rank < hashes.size(); ++rank)
    if (hashes[rank] != hashes[first_alike(rank)]) return false;
  return true;
}

void ParameterWrites::require_same(Communicator& run, const std::vector<ParamSpec>& specs) const {
  if (ranks_alike_ <= 1) return;
  std::vector<std::uint64_t> hashes;
  for (const std::int64_t other : all_gather_value(run, static_cast<std::int64_t>(hash())))
    hashes.push_back(static_cast<std::uint64_t>(other));
  if (!same(hashes)) refuse(run, specs);
}

void ParameterWrites::refuse(Communicator& run, const std::vector<ParamSpec>& specs) const {
  const std::vector<std::vector<std::int64_t>> all = all_gather_numbers(run, changes_);
  for (std::size_t param = 0; param < specs.size(); ++param) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const std::size_t first = first_alike(rank);
      if (all[rank][param] == all[first][param]) continue;
      throw ConfigError("attach", specs[param].name,
                        fmt::format("rank {} wrote different values into this parameter than rank {}", rank, first),
                        "write the same values on all ranks (one seed for random values). Or write inside "
                        "engine.gathered({it}, /*source_rank=*/0), whose end copies rank 0's values to all ranks");
    }
  }
  ZERO_CHECK(false, "hashes of writes differ, and the hash of no parameter differs");
}

int ParameterWrites::first_changed() const {
  const auto changed = std::ranges::find_if(changes_, [](std::int64_t changes) { return changes != 0; });
  return changed == changes_.end() ? -1 : static_cast<int>(changed - changes_.begin());
}

}  // namespace zero
