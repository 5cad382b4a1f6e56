#include "zero/engine/update/factor_sums.h"

#include <algorithm>
#include <memory>
#include <type_traits>

#include "zero/base/error/check.h"
#include "zero/comm/collectives.h"
#include "zero/memory/account/host_memory.h"

namespace zero {
namespace {

static_assert(std::is_trivially_copyable_v<ExactSum>);

Buffer staging(std::int64_t bytes, Ledger& ledger, Tier tier) {
  return {allocate_host(static_cast<std::size_t>(bytes)), ledger, tier, MemoryTag::kStaging};
}

// Returns the number of sums of a unit, padded to a block for each rank.
std::int64_t padded_sums(const Unit& unit, int world) {
  return world * factor_block_numel(unit, world);
}

constexpr auto kExactSumBytes = static_cast<std::int64_t>(sizeof(ExactSum));
constexpr auto kRoundedBytes = static_cast<std::int64_t>(sizeof(double));

}  // namespace

FactorSums::FactorSums(const Unit& unit, Communicator& comm, Ledger& ledger, Tier tier)
    : unit_(unit),
      comm_(comm),
      mine_(staging(padded_sums(unit, comm.world()) * kExactSumBytes, ledger, tier)),
      rounded_(staging(padded_sums(unit, comm.world()) * kRoundedBytes, ledger, tier)) {
  if (comm.world() > 1) from_all_ = staging(padded_sums(unit, comm.world()) * kExactSumBytes, ledger, tier);
  std::ranges::uninitialized_fill(mine_.as<ExactSum>(), ExactSum{});
}

FactorSums::Place FactorSums::place_of(std::size_t param) const {
  std::size_t begin = 0;
  for (const Slice& slice : unit_.slices) {
    if (static_cast<std::size_t>(slice.param) == param)
      return {begin, static_cast<std::size_t>(slice.rows), static_cast<std::size_t>(slice.columns())};
    begin += static_cast<std::size_t>(factor_numel(slice));
  }
  ZERO_CHECK(false, "parameter {} is none of {}", param, unit_.name);
}

std::span<ExactSum> FactorSums::rows(std::size_t param) const {
  const Place place = place_of(param);
  return mine_.as<ExactSum>().subspan(place.begin, place.num_rows);
}

std::span<ExactSum> FactorSums::columns(std::size_t param) const {
  const Place place = place_of(param);
  return mine_.as<ExactSum>().subspan(place.begin + place.num_rows, place.num_columns);
}

void FactorSums::exchange() {
  const std::span<ExactSum> mine = mine_.as<ExactSum>();
  const auto block = static_cast<std::size_t>(factor_block_numel(unit_, comm_.world()));
  std::span<const ExactSum> from_all = mine;
  if (comm_.world() > 1) {
    comm_.all_to_all(mine_.bytes(), from_all_.bytes(), {.unit = unit_.index}).wait();
    comm_.drain();
    from_all = from_all_.as<ExactSum>();
  }
  const std::span<double> own = rounded_.as<double>().subspan(block * static_cast<std::size_t>(comm_.rank()), block);
  for (std::size_t i = 0; i < block; ++i) {
    ExactSum sum;
    for (std::size_t at = i; at < from_all.size(); at += block) sum.add(from_all[at]);
    own[i] = sum.value();
  }
  if (comm_.world() > 1) all_gather(comm_, std::as_bytes(own), rounded_.bytes(), {.unit = unit_.index});
}

std::span<const double> FactorSums::rounded(std::size_t param) const {
  const Place place = place_of(param);
  return rounded_.as<double>().subspan(place.begin, place.num_rows + place.num_columns);
}

std::int64_t factor_staging_bytes(const std::vector<Unit>& units, int world) {
  std::int64_t most = 0;
  for (const Unit& unit : units) most = std::max(most, padded_sums(unit, world));
  return most * ((world > 1 ? 2 : 1) * kExactSumBytes + kRoundedBytes);
}

}  // namespace zero
