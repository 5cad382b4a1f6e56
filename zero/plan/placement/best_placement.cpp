#include "zero/plan/placement/best_placement.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/tier_bytes.h"
#include "zero/base/text/bytes.h"
#include "zero/plan/placement/placement_programme.h"
#include "zero/plan/units/estimate.h"

namespace zero {
namespace {

constexpr std::string_view kKey = "zero.placement";
// After this many rounds, the margin becomes the most that rounding can cost (rounding_loss()).
constexpr int kPatience = 4;

// Starts with all states on the device, then moves the movable states by the fractions of their class.
std::vector<UnitTiers> round_to_blocks(const StepModel& model, const PlacementProgramme& programme,
                                       const std::vector<StateFractions>& fractions) {
  Placement on_device = model.placement;
  on_device.tiers.clear();
  std::vector<UnitTiers> tiers;
  for (const Unit& unit : model.units) tiers.push_back(tiers_of(on_device, unit, model.world));
  for (std::size_t which = 0; which < fractions.size(); ++which) {
    const UnitClass& units = programme.classes()[which];
    const auto spread = [&](TierSplit UnitTiers::*state, TierFractions state_fractions) {
      if (!programme.can_move(units, state)) return;
      std::vector<std::int64_t> numels;
      for (const std::size_t unit : units.units) numels.push_back((tiers[unit].*state).numel());
      const std::vector<TierSplit> splits = split_over_tiers(numels, state_fractions, kKey);
      for (std::size_t i = 0; i < splits.size(); ++i) tiers[units.units[i]].*state = splits[i];
    };
    spread(&UnitTiers::parameter, fractions[which].parameter);
    spread(&UnitTiers::gradient, fractions[which].gradient);
    spread(&UnitTiers::optimizer, fractions[which].optimizer);
  }
  return tiers;
}

TierBudgets bytes_of(const StepModel& model, const std::vector<UnitTiers>& tiers) {
  Placement placement = model.placement;
  placement.tiers = tiers;
  const auto bytes = [&](Tier tier) {
    return state_bytes(model.units, model.world, placement, model.optimizer, tier).total();
  };
  TierBudgets taken;
  for (const Tier tier : kAllTiers) taken[tier] = bytes(tier);
  return taken;
}

// Returns the number of a unit's arrays that may be on disk: parameter, gradients, master and states.
std::int64_t num_arrays(const StepModel& model, const Unit& unit) {
  if (!unit.trainable) return 1;
  const auto states = std::ranges::count_if(model.optimizer.states,
                                            [&](const StateSpec& state) { return state.kept_by(unit.matrices()); });
  return 1 + model.placement.num_gradients() + (unit.dtype == DType::kFloat32 ? 0 : 1) + states;
}

// Returns the most by which rounding can exceed the programme's bytes on a tier. It is a block of each state of each
// class, the floating-point error of the fractions, and on disk each array's last page.
TierBudgets rounding_loss(const StepModel& model, const PlacementProgramme& programme) {
  const std::int64_t total = programme.bytes().total;
  const std::int64_t imprecision = total / 50'000'000 + 1;
  TierBudgets loss;
  for (const Tier tier : kAllTiers) loss[tier] = imprecision;
  for (const UnitClass& units : programme.classes()) {
    const ElementBytes& bytes = units.bytes;
    const std::int64_t block = kBlockNumel * (bytes.parameter + bytes.gradient + bytes.optimizer);
    std::int64_t arrays = 0;
    for (const std::size_t unit : units.units) arrays += num_arrays(model, model.units[unit]);
    const std::int64_t pages = arrays * (kDiskPageBytes - 1);
    for (const Tier tier : kAllTiers) loss[tier] += block + (is_memory(tier) ? 0 : pages);
  }
  return loss;
}

struct Refusal {
  const PlacementProgramme& programme;
  const TierBudgets& budgets;
  const TierBudgets& loss;
  bool knows_computation;
  const FreeDisk& free_disk;

  // Describes the step time after `tier` has grown to `bytes`; empty if rates are unknown.
  std::string step_with(Tier tier, std::int64_t bytes) const {
    TierBudgets grown = budgets;
    grown[tier] = bytes;
    try {
      const auto solution = programme.solve(grown);
      if (!solution || solution->seconds <= 0) return "";
      return fmt::format(" ({} of {})", knows_computation ? "a step" : "transfers and updates",
                         format_seconds(solution->seconds));
    } catch (const Error&) {  // the refusal is also complete without these seconds, for example if there is no solver
      return "";
    }
  }

  [[noreturn]] void raise() const {
    const std::int64_t total = programme.bytes().total, movable = programme.bytes().movable;
    const std::int64_t fixed = total - movable;
    const std::int64_t have = budgets.total();
    std::string reason;
    std::string remedy;
    // Counts the other tiers' budgets, and the cost of rounding to blocks and pages.
    const auto enough = [&](Tier tier, std::int64_t alone) {
      return std::min(total - (have - budgets[tier]) + loss.total(), alone);
    };
    const auto grow = [&](Tier tier, std::int64_t to) {
      const std::int64_t now = budgets[tier];
      const std::string_view joint = remedy.empty()                        ? "raise "
                                     : remedy.find("raise") == remedy.npos ? ", or raise "
                                                                           : ", or ";
      remedy += fmt::format("{}{} by {} B ({}), so states get {} B there{}", joint, facts_of(tier).budget, to - now,
                            format_bytes(to - now), to, step_with(tier, to));
    };
    if (budgets.device >= fixed) {
      const std::int64_t disk = enough(Tier::kDisk, movable + loss.disk);
      if (!free_disk.folders.empty()) {
        const std::int64_t more =
            ((disk - budgets.disk) * free_disk.ranks + FreeDisk::kTenths - 1) / FreeDisk::kTenths * 10;
        remedy = fmt::format(
            "zero.disk {}: a rank may take {} B there ({}; nine tenths of the free space, divided among {}) and needs "
            "{} B: free {} B more there ({}), or set another folder (zero.disk){}",
            free_disk.folders, budgets.disk, format_bytes(budgets.disk), format_count(free_disk.ranks, "rank"), disk,
            more, format_bytes(more), step_with(Tier::kDisk, disk));
      } else if (budgets.disk > 0)
        grow(Tier::kDisk, disk);
      else
        remedy =
            fmt::format("set zero.disk to a disk with room for {} B of a rank{}", disk, step_with(Tier::kDisk, disk));
      for (const Tier tier : kLowerTiers) {
        if (is_memory(tier)) grow(tier, enough(tier, movable));
      }
      reason = fmt::format("the states of a rank take {}; {} {}", format_bytes(total),
                           format_by_tier([this](Tier tier) { return budgets[tier]; }, " and "),
                           have < total ? fmt::format("have {} B too little room", total - have)
                                        : std::string("have just that room, but states take whole blocks and pages"));
    } else if (budgets.device < 0) {
      reason = fmt::format("gathered units, reductions and transfers leave the device {} B short ({})", -budgets.device,
                           format_bytes(-budgets.device));
    } else {
      reason = fmt::format("{} of the states of a rank cannot leave the device, which lacks {} B", format_bytes(fixed),
                           fixed - budgets.device);
    }
    grow(Tier::kDevice, std::max(fixed, enough(Tier::kDevice, total)));
    remedy += "; with more ranks, or a higher stage, each rank holds less";
    throw ConfigError(kKey, "auto", reason, remedy);
  }
};

}  // namespace

BestPlacement best_placement(const StepModel& model, const TierBudgets& budgets, const FreeDisk& free_disk) {
  const PlacementProgramme programme(model);
  const TierBudgets loss = rounding_loss(model, programme);
  const auto [total, movable] = programme.bytes();
  const bool knows_computation = model.profile.backward_seconds > 0;
  TierBudgets margin;  // the bytes by which earlier rounds exceeded each budget
  BestPlacement best;
  for (int round = 0;; ++round) {
    // The margin never shrinks the device budget below the states that must stay there.
    TierBudgets allowed;
    allowed.device = std::max(budgets.device - margin.device, std::min(budgets.device, total - movable));
    for (const Tier tier : kLowerTiers) allowed[tier] = std::max<std::int64_t>(budgets[tier] - margin[tier], 0);
    const bool holds = allowed.device >= total - movable && allowed.total() >= total;
    const auto solution = holds ? programme.solve(allowed) : std::nullopt;
    if (!solution) Refusal{programme, budgets, loss, knows_computation, free_disk}.raise();
    if (round == 0) best.least_seconds = solution->seconds;
    best.tiers = round_to_blocks(model, programme, solution->fractions);
    const TierBudgets taken = bytes_of(model, best.tiers);
    TierBudgets over;
    for (const Tier tier : kAllTiers) {
      over[tier] = std::max<std::int64_t>(taken[tier] - budgets[tier], 0);
      if (over[tier] > 0) margin[tier] = round < kPatience ? margin[tier] + over[tier] : loss[tier];
    }
    if (over.total() == 0) break;
    if (round < 2 * kPatience) continue;
    for (const Tier tier : kAllTiers) over[tier] += loss[tier];
    Refusal{programme, budgets, over, knows_computation, free_disk}.raise();
  }
  best.predicted = predict(model, best.tiers);
  return best;
}

}  // namespace zero
