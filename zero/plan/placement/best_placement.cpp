#include "zero/plan/placement/best_placement.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/base/text/seconds.h"
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
  return {bytes(Tier::kDevice), bytes(Tier::kHost), bytes(Tier::kDisk)};
}

// Returns the most by which rounding can exceed the programme's bytes on a tier. It is a block of each state of each
// class, the floating-point error of the fractions, and on disk each array's last page.
TierBudgets rounding_loss(const StepModel& model, const PlacementProgramme& programme) {
  const std::int64_t total = programme.bytes().total;
  const std::int64_t imprecision = total / 50'000'000 + 1;
  TierBudgets loss{imprecision, imprecision, imprecision};
  for (const UnitClass& units : programme.classes()) {
    const ElementBytes& bytes = units.bytes;
    const std::int64_t block = kBlockNumel * (bytes.parameter + bytes.gradient + bytes.optimizer);
    loss.device += block;
    loss.host += block;
    const std::int64_t arrays = 2 + bytes.optimizer / 4;
    loss.disk += block + arrays * static_cast<std::int64_t>(units.units.size()) * (kDiskPageBytes - 1);
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
  std::string step_with(std::int64_t TierBudgets::*tier, std::int64_t bytes) const {
    TierBudgets grown = budgets;
    grown.*tier = bytes;
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
    const std::int64_t have = budgets.device + budgets.host + budgets.disk;
    std::string reason;
    std::string remedy;
    // Counts the other tiers' budgets, and the cost of rounding to blocks and pages.
    const std::int64_t rounding = loss.device + loss.host + loss.disk;
    const auto enough = [&](std::int64_t others, std::int64_t alone) {
      return std::min(total - others + rounding, alone);
    };
    const auto grow = [&](std::string_view option, std::int64_t TierBudgets::*tier, std::int64_t to) {
      const std::int64_t now = budgets.*tier;
      const std::string_view joint = remedy.empty()                        ? "raise "
                                     : remedy.find("raise") == remedy.npos ? ", or raise "
                                                                           : ", or ";
      remedy += fmt::format("{}{} by {} B ({}), so states get {} B there{}", joint, option, to - now,
                            format_bytes(to - now), to, step_with(tier, to));
    };
    if (budgets.device >= fixed) {
      const std::int64_t disk = enough(budgets.device + budgets.host, movable + loss.disk);
      if (!free_disk.folders.empty()) {
        const std::int64_t more =
            ((disk - budgets.disk) * free_disk.ranks + FreeDisk::kTenths - 1) / FreeDisk::kTenths * 10;
        remedy = fmt::format(
            "zero.disk {}: a rank may take {} B there ({}; nine tenths of the free space, divided among {}) and needs "
            "{} B: free {} B more there ({}), or set another folder (zero.disk){}",
            free_disk.folders, budgets.disk, format_bytes(budgets.disk), format_count(free_disk.ranks, "rank"), disk,
            more, format_bytes(more), step_with(&TierBudgets::disk, disk));
      } else if (budgets.disk > 0)
        grow("zero.disk_memory", &TierBudgets::disk, disk);
      else
        remedy = fmt::format("set zero.disk to a disk with room for {} B of a rank{}", disk,
                             step_with(&TierBudgets::disk, disk));
      grow("zero.host_memory", &TierBudgets::host, enough(budgets.device + budgets.disk, movable));
      reason = fmt::format("the states of a rank take {}; {} on the device, {} on the host and {} on disk {}",
                           format_bytes(total), format_bytes(budgets.device), format_bytes(budgets.host),
                           format_bytes(budgets.disk),
                           have < total ? fmt::format("have {} B too little room", total - have)
                                        : std::string("have just that room, but states take whole blocks and pages"));
    } else if (budgets.device < 0) {
      reason = fmt::format("gathered units, reductions and transfers leave the device {} B short ({})", -budgets.device,
                           format_bytes(-budgets.device));
    } else {
      reason = fmt::format("{} of the states of a rank cannot leave the device, which lacks {} B", format_bytes(fixed),
                           fixed - budgets.device);
    }
    grow("zero.device_memory", &TierBudgets::device, std::max(fixed, enough(budgets.host + budgets.disk, total)));
    remedy += "; with more ranks, or a higher stage, each rank holds less";
    throw ConfigError(kKey, "auto", reason, remedy);
  }
};

}  // namespace

BestPlacement best_placement(const StepModel& model, const TierBudgets& budgets, const FreeDisk& free_disk) {
  const PlacementProgramme programme(model);
  const TierBudgets loss = rounding_loss(model, programme);
  const auto [total, movable] = programme.bytes();
  TierBudgets margin;  // the bytes by which earlier rounds exceeded each budget
  BestPlacement best;
  for (int round = 0;; ++round) {
    // The margin never shrinks the device budget below the states that must stay there.
    const TierBudgets allowed{std::max(budgets.device - margin.device, std::min(budgets.device, total - movable)),
                              std::max<std::int64_t>(budgets.host - margin.host, 0),
                              std::max<std::int64_t>(budgets.disk - margin.disk, 0)};
    const bool holds = allowed.device >= total - movable && allowed.device + allowed.host + allowed.disk >= total;
    const auto solution = holds ? programme.solve(allowed) : std::nullopt;
    if (!solution) Refusal{programme, budgets, loss, model.profile.backward_seconds > 0, free_disk}.raise();
    if (round == 0) best.least_seconds = solution->seconds;
    best.tiers = round_to_blocks(model, programme, solution->fractions);
    const TierBudgets taken = bytes_of(model, best.tiers);
    const auto excess = [&](std::int64_t TierBudgets::*tier) {
      const std::int64_t over = std::max<std::int64_t>(taken.*tier - budgets.*tier, 0);
      if (over > 0) margin.*tier = round < kPatience ? margin.*tier + over : loss.*tier;
      return over;
    };
    const std::int64_t over = excess(&TierBudgets::device) + excess(&TierBudgets::host) + excess(&TierBudgets::disk);
    if (over == 0) break;
    ZERO_CHECK(round < 2 * kPatience, "rounding exceeds a budget by {} B, however large the budget is", over);
  }
  best.predicted = predict(model, best.tiers);
  return best;
}

}  // namespace zero
