#include "zero/engine/wire/gradient_staging.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "zero/plan/schedule/schedule.h"

namespace zero {
namespace {

// The units of one block, which fill together.
struct Filling {
  std::int64_t bytes = 0;
  std::size_t num_params = 0;
  bool repeated = false;
  bool alone() const { return num_params == 1; }
};

std::vector<Filling> fillings_of(const std::vector<Unit>& units, int world) {
  std::map<int, Filling> by_block;
  for (const Unit& unit : units) {
    if (!unit.trainable) continue;
    Filling& filling = by_block[unit.first_unit_of_block];
    filling.bytes += gathered_bytes(unit, world);
    filling.num_params += unit.slices.size();
    filling.repeated = unit.repeated;
  }
  std::vector<Filling> fillings;
  for (const auto& [block, filling] : by_block) fillings.push_back(filling);
  return fillings;
}

// Returns the largest filling that counts, and the second largest; 0 if there is none.
template <typename Counts>
std::pair<std::int64_t, std::int64_t> largest_two(const std::vector<Filling>& fillings, Counts counts) {
  std::int64_t first = 0, second = 0;
  for (const Filling& filling : fillings) {
    if (!counts(filling)) continue;
    second = std::max(second, std::min(first, filling.bytes));
    first = std::max(first, filling.bytes);
  }
  return {first, second};
}

constexpr std::int64_t kMost = std::int64_t{64} << 20, kMostOfMin = std::int64_t{8} << 20;

}  // namespace

std::int64_t largest_gradient(const std::vector<Unit>& units, int world) {
  std::int64_t largest = 0;
  for (const Unit& unit : units) {
    if (unit.trainable) largest = std::max(largest, gathered_bytes(unit, world));
  }
  return largest;
}

std::int64_t staging_limit(const std::vector<Unit>& units, int world, bool min_budget) {
  if (!min_budget) return 2 * largest_gradient(units, world);
  const std::vector<Filling> fillings = fillings_of(units, world);
  const auto [largest, next] = largest_two(fillings, [](const Filling&) { return true; });
  std::int64_t limit = largest + largest_two(fillings, std::mem_fn(&Filling::alone)).second;
  for (const Filling& filling : fillings) {
    if (filling.alone() || filling.repeated) continue;
    limit = std::max(limit, filling.bytes + (filling.bytes == largest ? next : largest));
  }
  return limit;
}

DeviceCommunicator::Options linked_options(const std::vector<Unit>& units, int world, const Placement& placement,
                                           bool min_budget) {
  return {.staging_bytes = std::min(min_budget ? kMostOfMin : kMost, 2 * largest_gradient(units, world)),
          .linked_sums = placement.sums == RankSums::kLinked};
}

std::int64_t linked_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool min_budget) {
  if (!placement.linked) return 0;
  return DeviceCommunicator::bytes_of(world, linked_options(units, world, placement, min_budget));
}

}  // namespace zero
