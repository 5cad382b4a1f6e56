#include "zero/engine/wire/linked_staging.h"

#include <algorithm>

#include "zero/engine/wire/gradient_staging.h"

namespace zero {
namespace {

constexpr std::int64_t kMost = std::int64_t{64} << 20, kMostOfMin = std::int64_t{8} << 20;

}  // namespace

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
