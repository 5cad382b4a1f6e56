#include "zero/plan/placement/placement_programme.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "zero/plan/units/estimate.h"
#include "zero/plan/units/partition.h"

namespace zero {
namespace {

// Tolerance of the solver: budgets and equal steps get this slack, and rounding to blocks removes it.
constexpr double kSlack = 1e-9;
constexpr int kClassColumns = kNumAmounts - 1;  // kUpdated is no variable

int column_of(std::size_t which, Amount amount) {
  return kNumStepPhases + static_cast<int>(which) * kClassColumns + static_cast<int>(amount);
}

struct StateColumns {
  TierSplit UnitTiers::*state;
  std::int64_t ElementBytes::*bytes;
  Amount amount;  // see on()
};
constexpr std::array<StateColumns, 3> kStates{{
    {&UnitTiers::parameter, &ElementBytes::parameter, Amount::kParameter},
    {&UnitTiers::gradient, &ElementBytes::gradient, Amount::kGradient},
    {&UnitTiers::optimizer, &ElementBytes::optimizer, Amount::kOptimizer},
}};

std::vector<UnitClass> classes_of(const StepModel& model, const std::vector<PhaseEnd>& ends) {
  std::vector<UnitClass> classes;
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    const Unit& unit = model.units[i];
    UnitClass own{.trainable = unit.trainable, .bytes = element_bytes(model, unit), .costs = costs_of(model, unit)};
    for (const PhaseEnd& end : ends) own.ends.push_back(end.units[i]);
    auto known = std::ranges::find_if(classes, [&](const UnitClass& other) {
      return other.trainable == own.trainable && other.bytes == own.bytes && other.costs == own.costs &&
             other.ends == own.ends;
    });
    if (known == classes.end()) known = classes.insert(known, std::move(own));
    known->units.push_back(i);
    known->numel += static_cast<double>(model.placement.optimizer_sharded ? shard_numel(unit, model.world)
                                                                          : padded_numel(unit, model.world));
  }
  return classes;
}

// Rounds away the solver's error: 0.3000000001 and 0.2999999999 are the same fraction, because two states share a
// boundary.
double clean(double fraction) {
  constexpr double kSteps = 1 << 28;
  return std::clamp(std::round(fraction * kSteps) / kSteps, 0.0, 1.0);
}

TierFractions fractions(const std::vector<double>& x, std::size_t which, const StateColumns& state) {
  TierFractions fractions;
  double rest = 1;
  for (auto tier = kLowerTiers.rbegin(); tier != kLowerTiers.rend(); ++tier) {
    fractions[*tier] = std::min(clean(x[static_cast<std::size_t>(column_of(which, on(state.amount, *tier)))]), rest);
    rest -= fractions[*tier];
  }
  return fractions;
}

}  // namespace

PlacementProgramme::PlacementProgramme(const StepModel& model)
    : placement_(model.placement),
      profile_(model.profile),
      ends_(phase_ends(model)),
      classes_(classes_of(model, ends_)) {
  placement_.tiers.clear();
  bytes_.total = state_bytes(model.units, model.world, placement_, model.optimizer).total();
  for (const UnitClass& units : classes_) {
    for (const StateColumns& state : kStates) {
      if (can_move(units, state.state))
        bytes_.movable += static_cast<std::int64_t>(units.numel) * units.bytes.*state.bytes;
    }
  }
  double on_device = 0, largest = 0;
  for (std::size_t phase = 0; phase < kNumStepPhases; ++phase) {
    double seconds = 0;
    for (std::size_t resource = 0; resource < kNumResources; ++resource) {
      seconds = std::max(seconds, busy_on_device(phase, resource));
      for (const UnitClass& units : classes_) {
        for (const BusySeconds& costs : units.costs)
          largest = std::max(largest, std::abs(costs[phase][resource]) * units.numel);
      }
    }
    on_device += seconds;
  }
  if (largest > 0) time_scale_ = std::max(on_device, largest * 1e-6);
}

double PlacementProgramme::busy_on_device(std::size_t phase, std::size_t resource) const {
  double seconds = 0;
  if (resource == static_cast<std::size_t>(Resource::kCompute)) {
    if (phase == static_cast<std::size_t>(StepPhase::kForward)) seconds = profile_.forward_seconds;
    if (phase == static_cast<std::size_t>(StepPhase::kBackward)) seconds = profile_.backward_seconds;
  }
  for (const UnitClass& units : classes_)
    seconds += units.costs[index_of(Amount::kUpdated)][phase][resource] * units.numel;
  return seconds;
}

bool PlacementProgramme::can_move(const UnitClass& units, TierSplit UnitTiers::*state) const {
  if (state == &UnitTiers::parameter) return placement_.parameter_sharded;
  if (state == &UnitTiers::gradient) return placement_.gradient_sharded && units.trainable;
  return units.trainable;
}

LinearProgramme PlacementProgramme::programme(const TierBudgets& budgets) const {
  LinearProgramme programme;
  for (int phase = 0; phase < kNumStepPhases; ++phase) programme.add_column({.cost = 1});
  for (const UnitClass& units : classes_) {
    for (const StateColumns& state : kStates) {
      const bool moves = can_move(units, state.state);
      // Without moments, the host's fraction still says where the update runs. An update does not run on disk.
      const bool has_bytes = units.bytes.*state.bytes > 0;
      for (const Tier tier : kLowerTiers) {
        const bool may_hold = budgets[tier] > 0 ? has_bytes || is_memory(tier) : !has_bytes && is_memory(tier);
        programme.add_column({.upper = moves && may_hold ? 1.0 : 0.0});
      }
    }
    // Gradient and parameter, above and below their update.
    for (int apart = 0; apart < 4; ++apart) programme.add_column({.upper = units.trainable ? 1.0 : 0.0});
  }
  add_phase_rows(programme);
  add_end_rows(programme);
  add_class_rows(programme, /*all_leaves=*/budgets.device <= bytes_.total - bytes_.movable);
  add_budget_rows(programme, budgets);
  return programme;
}

bool PlacementProgramme::update_goes_on() const {
  return std::ranges::any_of(ends_, [](const PhaseEnd& end) { return end.phase == StepPhase::kUpdate; });
}

void PlacementProgramme::add_phase_rows(LinearProgramme& programme) const {
  for (std::size_t phase = 0; phase < kNumStepPhases; ++phase) {
    if (phase == static_cast<std::size_t>(StepPhase::kUpdate) && update_goes_on()) continue;
    for (std::size_t resource = 0; resource < kNumResources; ++resource) {
      std::vector<LinearProgramme::Term> terms{{static_cast<int>(phase), -1}};
      for (std::size_t which = 0; which < classes_.size(); ++which) {
        for (std::size_t amount = 0; amount < kClassColumns; ++amount) {
          const double seconds = classes_[which].costs[amount][phase][resource] * classes_[which].numel;
          if (seconds != 0) terms.push_back({column_of(which, static_cast<Amount>(amount)), seconds / time_scale_});
        }
      }
      const double already = busy_on_device(phase, resource) / time_scale_;
      if (terms.size() > 1 || already > 0) programme.add_row(std::move(terms), {.upper = -already});
    }
  }
}

void PlacementProgramme::add_end_rows(LinearProgramme& programme) const {
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    const PhaseEnd& end = ends_[i];
    std::vector<LinearProgramme::Term> terms{{static_cast<int>(end.phase), -1}};
    const bool update = end.phase == StepPhase::kUpdate;
    const StepPhase computing = update ? StepPhase::kForward : end.phase;
    // subtracts the forward pass: the update counts only what exceeds it
    if (update) terms.push_back({static_cast<int>(StepPhase::kForward), -1});
    double already =
        end.apart * busy_on_device(static_cast<std::size_t>(computing), static_cast<std::size_t>(Resource::kCompute));
    const std::size_t num_phases = terms.size();
    for (std::size_t which = 0; which < classes_.size(); ++which) {
      const UnitClass& units = classes_[which];
      if (!units.ends[i]) continue;
      already += cost_at_end(units.costs, Amount::kUpdated, end) * units.numel;
      for (int amount = 0; amount < kClassColumns; ++amount) {
        const double seconds = cost_at_end(units.costs, static_cast<Amount>(amount), end) * units.numel;
        if (seconds != 0) terms.push_back({column_of(which, static_cast<Amount>(amount)), seconds / time_scale_});
      }
    }
    if (terms.size() > num_phases || (update && already > 0))
      programme.add_row(std::move(terms), {.upper = -already / time_scale_});
  }
}

void PlacementProgramme::add_class_rows(LinearProgramme& programme, bool all_leaves) const {
  for (std::size_t which = 0; which < classes_.size(); ++which) {
    const auto column = [&](Amount amount) { return column_of(which, amount); };
    for (const StateColumns& state : kStates) {
      if (!can_move(classes_[which], state.state)) continue;
      const bool leaves = all_leaves && classes_[which].bytes.*state.bytes > 0;
      std::vector<LinearProgramme::Term> sum;
      for (const Tier tier : kLowerTiers) sum.push_back({column(on(state.amount, tier)), 1});
      programme.add_row(std::move(sum), {.lower = leaves ? 1.0 : 0.0, .upper = 1});
    }
    if (!classes_[which].trainable) continue;
    // The elements of the state on the device, minus the elements whose update runs there, are `above` minus `below`.
    const auto balance = [&](Amount state, Amount above, Amount below) {
      std::vector<LinearProgramme::Term> terms;
      for (const Tier tier : kLowerTiers) terms.push_back({column(on(Amount::kOptimizer, tier)), 1});
      for (const Tier tier : kLowerTiers) terms.push_back({column(on(state, tier)), -1});
      terms.push_back({column(above), -1});
      terms.push_back({column(below), 1});
      programme.add_row(std::move(terms), {.lower = 0, .upper = 0});
    };
    balance(Amount::kGradient, Amount::kGradientAbove, Amount::kGradientBelow);
    balance(Amount::kParameter, Amount::kParameterAbove, Amount::kParameterBelow);
  }
}

void PlacementProgramme::add_budget_rows(LinearProgramme& programme, const TierBudgets& budgets) const {
  const double scale = std::max(1.0, static_cast<double>(bytes_.total));
  PerTier<std::vector<LinearProgramme::Term>> rows;
  for (std::size_t which = 0; which < classes_.size(); ++which) {
    for (const StateColumns& state : kStates) {
      const double share = classes_[which].numel * static_cast<double>(classes_[which].bytes.*state.bytes) / scale;
      if (share == 0 || !can_move(classes_[which], state.state)) continue;
      for (const Tier tier : kLowerTiers) {
        rows[tier].push_back({column_of(which, on(state.amount, tier)), share});
        rows.device.push_back({column_of(which, on(state.amount, tier)), -share});
      }
    }
  }
  const auto room = [&](std::int64_t bytes) { return static_cast<double>(bytes) / scale + kSlack; };
  programme.add_row(std::move(rows.device), {.upper = room(budgets.device - bytes_.total)});
  for (const Tier tier : kLowerTiers) programme.add_row(std::move(rows[tier]), {.upper = room(budgets[tier])});
}

std::optional<PlacementProgramme::Solution> PlacementProgramme::solve(const TierBudgets& budgets) const {
  LinearProgramme programme = this->programme(budgets);
  std::optional<std::vector<double>> x = zero::solve(programme);
  if (!x) return std::nullopt;
  const double shortest = programme.cost_of(*x);

  // Solves again, among the placements with the shortest step: the fewest bytes off the device win.
  std::vector<LinearProgramme::Term> phases;
  for (int phase = 0; phase < kNumStepPhases; ++phase) {
    phases.push_back({phase, 1});
    programme.columns[static_cast<std::size_t>(phase)].cost = 0;
  }
  programme.add_row(std::move(phases), {.upper = shortest * (1 + kSlack) + kSlack});
  const double scale = std::max(1.0, static_cast<double>(bytes_.total));
  for (std::size_t which = 0; which < classes_.size(); ++which) {
    for (const StateColumns& state : kStates) {
      const auto bytes = static_cast<double>(std::max<std::int64_t>(classes_[which].bytes.*state.bytes, 1));
      const double weight = classes_[which].numel * bytes / scale;
      for (const Tier tier : kLowerTiers)
        programme.columns[static_cast<std::size_t>(column_of(which, on(state.amount, tier)))].cost =
            facts_of(tier).cost * weight;
    }
  }
  if (auto least = zero::solve(programme)) x = std::move(least);

  Solution solution{.seconds = shortest * time_scale_};
  for (std::size_t which = 0; which < classes_.size(); ++which) {
    solution.fractions.push_back(
        {fractions(*x, which, kStates[0]), fractions(*x, which, kStates[1]), fractions(*x, which, kStates[2])});
  }
  return solution;
}

}  // namespace zero
