#include "zero/engine/place/rebalancer.h"

#include <algorithm>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/process/clock.h"
#include "zero/base/text/bytes.h"
#include "zero/plan/units/partition.h"

namespace zero {
namespace {

constexpr std::int64_t kMostReserve = std::int64_t{1} << 50;
// If only gathered units can be released, little can be freed, so it is enough to measure seldom, between steps.
constexpr std::chrono::milliseconds kSeldom{200};

std::int64_t reserve_of(const MonitorOptions& options, const MemoryWatch::Source& read_memory) {
  if (options.reserve_bytes > 0) return std::min(options.reserve_bytes, kMostReserve);
  return default_reserve(read_memory().free_bytes);
}

// Returns the bytes that may stay gathered beyond two units.
std::int64_t spare_of(GatherBudget budget, const std::vector<Unit>& units, int world, const Placement& placement) {
  if (budget.is_min() || !placement.parameter_sharded) return 0;
  std::int64_t largest = 0, all = 0;
  for (const Unit& unit : units) {
    largest = std::max(largest, gathered_bytes(unit, world));
    all += gathered_bytes(unit, world);
  }
  return std::max<std::int64_t>(std::min(budget.capacity_bytes, all) - 2 * largest, 0);
}

}  // namespace

Rebalancer::Rebalancer(Placer& placer, GatherBudget budget, const std::vector<Unit>& units, int world,
                       const AttachOptions& options, int local_world, const MemoryWatch::Source& read_memory)
    : placer_(placer),
      budget_(budget),
      units_(units),
      world_(world),
      gathered_(spare_of(budget, units, world, placer.placement())),
      reserve_(reserve_of(options.offload.monitor, read_memory)),
      num_ranks_(std::max(local_world, 1)),
      policy_(reserve_, local_world),
      monitor_(read_memory, placer.movable() ? options.offload.monitor.period : std::chrono::milliseconds(0)) {
  if (!placer.movable() && options.offload.monitor.period.count() > 0)
    seconds_between_looks_ = std::chrono::duration<double>(kSeldom).count();
  restart();
  if (gathered_ > 0) {  // bytes beyond the model's size cannot be freed
    std::int64_t all = 0;
    for (const Unit& unit : units) all += gathered_bytes(unit, world);
    budget_.capacity_bytes = std::min(budget_.capacity_bytes, all);
  }
}

void Rebalancer::restart() {
  first_tiers_.clear();
  for (const Unit& unit : units_) first_tiers_.push_back(tiers_of(placer_.placement(), unit, world_));
  std::int64_t in_memory = 0;
  for (const Tier tier : kAllTiers)
    if (is_memory(tier)) in_memory += placer_.held()[tier];
  most_ = gathered_ + (placer_.movable() ? in_memory - placer_.fixed_bytes() : 0);
}

std::int64_t Rebalancer::wanted(std::int64_t untouched) {
  const double now = monotonic_seconds();
  if (now < next_look_) return 0;
  next_look_ = now + seconds_between_looks_;
  try {
    worst_ = monitor_.take_worst();
  } catch (const IoError& error) {  // a failed measurement is no reason to fail
    if (!std::exchange(said_blind_, true)) ZERO_LOG(warn, "memory is not watched in this step: {}", error.what());
    return 0;
  }
  worst_.free_bytes = std::max<std::int64_t>(worst_.free_bytes - untouched * num_ranks_, 0);
  return policy_.judge(worst_, now);
}

void Rebalancer::changed() {
  policy_.changed();
  try {
    monitor_.take_worst();
  } catch (const IoError&) {  // the next measurement reports it
  }
}

std::optional<Rebalancer::Change> Rebalancer::change(std::int64_t wanted) {
  const std::int64_t next = std::clamp<std::int64_t>(given_back_ + wanted, 0, most_);
  if (wanted > 0 && next == given_back_ && !std::exchange(said_exhausted_, true)) {
    ZERO_LOG(warn, "memory is short, and this rank holds no more states that can leave memory ({} were free){}",
             format_bytes(worst_.free_bytes),
             placer_.movable() ? "" : "; states move only without fractions and with a disk that has room for them");
  }
  if (next == given_back_) return std::nullopt;
  const std::int64_t from_gathered = std::min(next, gathered_);
  std::optional<std::vector<UnitTiers>> tiers = tiers_for(next - from_gathered);
  if (!tiers) return std::nullopt;
  given_back_ = next;
  Change change{.tiers = std::move(*tiers), .budget = budget_, .given_back = next, .wanted = wanted};
  if (gathered_ > 0) change.budget.capacity_bytes -= from_gathered;
  return change;
}

std::optional<std::vector<UnitTiers>> Rebalancer::tiers_for(std::int64_t given_back_by_states) {
  if (given_back_by_states == 0) return first_tiers_;
  // The slowest memory gives back first, and the device the rest.
  TierBudgets within;
  std::int64_t rest = given_back_by_states;
  for (auto tier = kAllTiers.rbegin(); tier != kAllTiers.rend(); ++tier) {
    if (!is_memory(*tier)) {
      within[*tier] = placer_.budgets().room()[*tier];
      continue;
    }
    const std::int64_t held = placer_.held()[*tier];
    const std::int64_t given_back = *tier == Tier::kDevice ? rest : std::min(rest, held);
    within[*tier] = held - given_back;
    rest -= given_back;
  }
  return placer_.try_within(within);
}

}  // namespace zero
