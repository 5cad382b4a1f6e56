#include "zero/plan/step_model.h"

#include <algorithm>

#include "zero/base/check.h"
#include "zero/plan/schedule.h"
#include "zero/plan/step_costs.h"

namespace zero {
namespace {

const std::array<double, kNumResources>& of(const BusySeconds& busy, StepPhase phase) {
  return busy[static_cast<std::size_t>(phase)];
}

Resource largest(const std::array<double, kNumResources>& seconds) {
  return static_cast<Resource>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
}

}  // namespace

std::string_view name_of(Resource resource) {
  constexpr std::array<std::string_view, kNumResources> kNames{"compute", "link up", "link down", "disk", "update"};
  return kNames[static_cast<std::size_t>(resource)];
}

std::string_view name_of(StepPhase phase) {
  constexpr std::array<std::string_view, kNumStepPhases> kNames{"forward", "backward", "update"};
  return kNames[static_cast<std::size_t>(phase)];
}

double PredictedStep::seconds(StepPhase phase) const {
  return std::ranges::max(of(busy, phase));
}

Resource PredictedStep::bound(StepPhase phase) const {
  return largest(of(busy, phase));
}

double PredictedStep::total() const {
  double total = 0;
  for (const StepPhase phase : kAllStepPhases) total += seconds(phase);
  return total;
}

Resource PredictedStep::bound() const {
  std::array<double, kNumResources> share{};
  for (const StepPhase phase : kAllStepPhases) share[static_cast<std::size_t>(bound(phase))] += seconds(phase);
  return largest(share);
}

void count_gathers(const Schedule& schedule, std::size_t num_units, StepProfile& profile) {
  profile.forward_gathers.assign(num_units, 0);
  profile.backward_gathers.assign(num_units, 0);
  bool in_backward = false;
  for (const Station& station : schedule.stations) {
    if (station.event.kind == EventKind::kBackward) in_backward = true;
    for (const Move& move : station.moves) {
      if (move.kind != MoveKind::kGather) continue;
      std::vector<int>& gathers = in_backward ? profile.backward_gathers : profile.forward_gathers;
      ++gathers[static_cast<std::size_t>(move.unit)];
    }
    if (station.event.kind == EventKind::kEndBackward) in_backward = false;
  }
}

PredictedStep predict(const StepModel& model, const std::vector<UnitTiers>& tiers) {
  ZERO_CHECK(tiers.size() == model.units.size(), "{} units on the tiers of {}", model.units.size(), tiers.size());
  PredictedStep step;
  const auto compute = static_cast<std::size_t>(Resource::kCompute);
  step.busy[static_cast<std::size_t>(StepPhase::kForward)][compute] = model.profile.forward_seconds;
  step.busy[static_cast<std::size_t>(StepPhase::kBackward)][compute] = model.profile.backward_seconds;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const StepCosts costs = costs_of(model, model.units[i]);
    const Amounts amounts = amounts_of(model, model.units[i], tiers[i]);
    for (std::size_t amount = 0; amount < amounts.size(); ++amount) {
      for (std::size_t phase = 0; phase < kNumStepPhases; ++phase) {
        for (std::size_t resource = 0; resource < kNumResources; ++resource)
          step.busy[phase][resource] += costs[amount][phase][resource] * amounts[amount];
      }
    }
  }
  return step;
}

}  // namespace zero
