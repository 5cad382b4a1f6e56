#include "zero/plan/model/step_model.h"

#include <algorithm>
#include <string>

#include "zero/base/error/check.h"
#include "zero/plan/model/step_costs.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {
namespace {

const std::array<double, kNumResources>& of(const BusySeconds& busy, StepPhase phase) {
  return busy[static_cast<std::size_t>(phase)];
}

bool goes_on(const PredictedStep& step, StepPhase phase) {
  return phase == StepPhase::kUpdate &&
         std::ranges::any_of(step.ends, [](const EndTransfers& end) { return end.phase == StepPhase::kUpdate; });
}

// Returns the seconds of each resource, including the computation that it does not overlap with. For an update that
// continues into the forward pass, it returns the seconds of both phases.
std::array<double, kNumResources> with_ends(const PredictedStep& step, StepPhase phase) {
  const bool both = goes_on(step, phase);
  std::array<double, kNumResources> seconds{};
  if (!both) seconds = of(step.busy, phase);
  const double compute =
      of(step.busy, both ? StepPhase::kForward : phase)[static_cast<std::size_t>(Resource::kCompute)];
  for (const EndTransfers& end : step.ends) {
    if (end.phase != phase || end.seconds <= 0) continue;
    double& longest = seconds[static_cast<std::size_t>(end.resource)];
    longest = std::max(longest, end.apart * compute + end.seconds);
  }
  return seconds;
}

Resource largest(const std::array<double, kNumResources>& seconds) {
  return static_cast<Resource>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
}

// Returns the resource that bounds the phase, including the computation that it cannot overlap with.
Resource busiest(const PredictedStep& step, StepPhase phase) {
  return largest(with_ends(step, phase));
}

// Returns the resource's own seconds within the phase; the rest is computation before or after it.
double own_seconds(const PredictedStep& step, StepPhase phase, Resource resource) {
  const double longest = step.seconds(phase);
  return goes_on(step, phase) ? longest : std::min(longest, of(step.busy, phase)[static_cast<std::size_t>(resource)]);
}

// Adds up the resources of a tier of requests if more than one of them has a share.
void join(std::array<double, kNumResources>& share, Tier tier) {
  const auto of = [&share](Resource resource) -> double& { return share[static_cast<std::size_t>(resource)]; };
  double &both = of(requests_of(tier)), &read = of(reads_of(tier)), &write = of(writes_of(tier));
  const double sum = both + read + write;
  if (std::max({both, read, write}) == sum) return;
  both = sum;
  read = write = 0;
}

}  // namespace

std::string_view name_of(Resource resource) {
  static const std::array<std::string, kNumResources> kNames = [] {
    std::array<std::string, kNumResources> names{"compute", "link up", "link down"};
    const auto name = [&names](Resource of) -> std::string& { return names[static_cast<std::size_t>(of)]; };
    for (const Tier tier : kRequestTiers) {
      name(requests_of(tier)) = name_of(tier);
      name(reads_of(tier)) = std::string(name_of(tier)) + " read";
      name(writes_of(tier)) = std::string(name_of(tier)) + " write";
    }
    name(Resource::kUpdate) = "update";
    return names;
  }();
  return kNames[static_cast<std::size_t>(resource)];
}

std::string_view name_of(StepPhase phase) {
  constexpr std::array<std::string_view, kNumStepPhases> kNames{"forward", "backward", "update"};
  return kNames[static_cast<std::size_t>(phase)];
}

double PredictedStep::seconds(StepPhase phase) const {
  const double longest = std::ranges::max(with_ends(*this, phase));
  return goes_on(*this, phase) ? std::max(longest - seconds(StepPhase::kForward), 0.0) : longest;
}

Resource PredictedStep::bound(StepPhase phase) const {
  const Resource resource = busiest(*this, phase);
  const double own = own_seconds(*this, phase, resource);
  return own < seconds(phase) - own ? Resource::kCompute : resource;
}

double PredictedStep::total() const {
  double total = 0;
  for (const StepPhase phase : kAllStepPhases) total += seconds(phase);
  return total;
}

Resource PredictedStep::bound() const {
  std::array<double, kNumResources> share{};
  for (const StepPhase phase : kAllStepPhases) {
    const Resource resource = busiest(*this, phase);
    const double own = own_seconds(*this, phase, resource);
    share[static_cast<std::size_t>(resource)] += own;
    share[static_cast<std::size_t>(Resource::kCompute)] += seconds(phase) - own;
  }
  for (const Tier tier : kRequestTiers) join(share, tier);
  return largest(share);
}

void count_gathers(const Schedule& schedule, std::size_t num_units, StepProfile& profile) {
  profile.min_budget = schedule.budget.is_min();
  profile.forward_gathers.assign(num_units, 0);
  profile.backward_gathers.assign(num_units, 0);
  bool in_backward = false;
  for (const ScheduleEntry& entry : schedule.entries) {
    if (entry.event.kind == EventKind::kBackward) in_backward = true;
    for (const Action& action : entry.actions) {
      if (action.kind != ActionKind::kGather || action.way == GatherWay::kParts) continue;
      std::vector<int>& gathers = in_backward ? profile.backward_gathers : profile.forward_gathers;
      ++gathers[static_cast<std::size_t>(action.unit)];
    }
    if (entry.event.kind == EventKind::kEndBackward) in_backward = false;
  }
}

PredictedStep predict(const StepModel& model, const std::vector<UnitTiers>& tiers) {
  ZERO_CHECK(tiers.size() == model.units.size(), "{} units on the tiers of {}", model.units.size(), tiers.size());
  PredictedStep step;
  const auto compute = static_cast<std::size_t>(Resource::kCompute);
  step.busy[static_cast<std::size_t>(StepPhase::kForward)][compute] = model.profile.forward_seconds;
  step.busy[static_cast<std::size_t>(StepPhase::kBackward)][compute] = model.profile.backward_seconds;
  const std::vector<PhaseEnd> ends = phase_ends(model);
  for (const PhaseEnd& end : ends) step.ends.push_back({end.phase, end.resource, end.apart, 0});
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const StepCosts costs = costs_of(model, model.units[i]);
    const Amounts amounts = amounts_of(model, model.units[i], tiers[i]);
    for (std::size_t end = 0; end < ends.size(); ++end) {
      if (ends[end].units[i]) step.ends[end].seconds += seconds_at_end(costs, amounts, ends[end]);
    }
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
