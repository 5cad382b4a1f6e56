#include "zero/plan/model/step_costs.h"

#include <algorithm>
#include <utility>

#include "zero/base/error/check.h"

namespace zero {
namespace {

// Returns how often a pass gathers the parameters of `unit` from its shards.
int gathers(const std::vector<int>& by_unit, const StepModel& model, const Unit& unit) {
  if (by_unit.empty() && model.placement.secondary_group > 0)
    return &by_unit == &model.profile.forward_gathers ? 1 : 0;  // later gathers use parts
  if (by_unit.empty()) return model.placement.accumulate;
  const auto index = static_cast<std::size_t>(unit.index);
  ZERO_CHECK(index < by_unit.size(), "no gathers of unit {} in the profile", unit.index);
  return by_unit[index];
}

// Adds up the cost of one element. Bytes and rates may be 0, which adds nothing.
class CostSheet {
 public:
  explicit CostSheet(const TierRates& rates) : rates_(rates) {}

  void add(Amount amount, StepPhase phase, Resource resource, double what, double rate) {
    if (rate <= 0) return;
    costs_[index_of(amount)][static_cast<std::size_t>(phase)][static_cast<std::size_t>(resource)] += what / rate;
  }
  void up(Amount amount, StepPhase phase, std::int64_t bytes) {
    add(amount, phase, Resource::kLinkUp, static_cast<double>(bytes), rates_.link_up);
  }
  void down(Amount amount, StepPhase phase, std::int64_t bytes) {
    add(amount, phase, Resource::kLinkDown, static_cast<double>(bytes), rates_.link_down);
  }
  // Read and write a state on each tier of requests.
  void read(Amount state, StepPhase phase, std::int64_t bytes) {
    for (const Tier tier : kRequestTiers)
      request(state, tier, phase, reads_of(tier), bytes, rates_.requests[tier].read);
  }
  void write(Amount state, StepPhase phase, std::int64_t bytes) {
    for (const Tier tier : kRequestTiers)
      request(state, tier, phase, writes_of(tier), bytes, rates_.requests[tier].write);
  }
  const StepCosts& costs() const { return costs_; }

 private:
  void request(Amount state, Tier tier, StepPhase phase, Resource way, std::int64_t bytes, double rate) {
    const auto what = static_cast<double>(bytes);
    add(on(state, tier), phase, way, what, rate);
    add(on(state, tier), phase, requests_of(tier), rates_.requests[tier].share * what, rate);
  }

  TierRates rates_;
  StepCosts costs_{};
};

void add_prefetches(CostSheet& sheet, StepPhase phase, std::int64_t bytes) {
  for (const Tier tier : kLowerTiers) sheet.up(on(Amount::kParameter, tier), phase, bytes);
  sheet.read(Amount::kParameter, phase, bytes);
}

// Every reduction but the first adds to the sum so far, which is fetched first.
void add_offloads(CostSheet& sheet, int reductions, std::int64_t bytes) {
  for (const Tier tier : kLowerTiers) {
    sheet.down(on(Amount::kGradient, tier), StepPhase::kBackward, reductions * bytes);
    sheet.up(on(Amount::kGradient, tier), StepPhase::kBackward, (reductions - 1) * bytes);
  }
  sheet.write(Amount::kGradient, StepPhase::kBackward, reductions * bytes);
  sheet.read(Amount::kGradient, StepPhase::kBackward, (reductions - 1) * bytes);
}

// `parameter_sharded`: the pass over the states includes the parameter, whatever its type. A whole parameter is only
// read if it is its own master.
void add_update(CostSheet& sheet, const ElementBytes& bytes, bool own_master, bool parameter_sharded,
                bool rounds_gradient, int num_reads, int gradient_reads) {
  constexpr auto kUpdate = StepPhase::kUpdate;
  sheet.read(Amount::kOptimizer, kUpdate, num_reads * bytes.optimizer);
  sheet.write(Amount::kOptimizer, kUpdate, bytes.optimizer);
  const std::int64_t read = own_master || parameter_sharded ? num_reads * bytes.parameter : 0;
  const std::int64_t read_up = own_master ? num_reads * bytes.parameter : 0;
  sheet.read(Amount::kParameter, kUpdate, read);
  sheet.write(Amount::kParameter, kUpdate, bytes.parameter);
  sheet.down(Amount::kParameterAbove, kUpdate, read);
  sheet.up(Amount::kParameterAbove, kUpdate, bytes.parameter);
  sheet.up(Amount::kParameterBelow, kUpdate, read_up);
  sheet.down(Amount::kParameterBelow, kUpdate, bytes.parameter);
  sheet.read(Amount::kGradient, kUpdate, gradient_reads * bytes.gradient);
  if (rounds_gradient) {  // rounds the fp32 sum of bf16 gradients in an extra pass, before the norm is known
    sheet.read(Amount::kGradient, kUpdate, bytes.gradient);
    sheet.write(Amount::kGradient, kUpdate, bytes.gradient);
  }
  sheet.down(Amount::kGradientAbove, kUpdate, gradient_reads * bytes.gradient);
  sheet.up(Amount::kGradientBelow, kUpdate, gradient_reads * bytes.gradient);
}

void add_arithmetic(CostSheet& sheet, const TierRates& rates) {
  constexpr auto kUpdate = StepPhase::kUpdate;
  if (rates.device_update_numel <= 0) {  // the same cores update all moments, whatever their tier
    sheet.add(Amount::kUpdated, kUpdate, Resource::kUpdate, 1, rates.update_numel);
    return;
  }
  sheet.add(Amount::kUpdated, kUpdate, Resource::kCompute, 1, rates.device_update_numel);
  for (const Tier tier : kLowerTiers) {
    sheet.add(on(Amount::kOptimizer, tier), kUpdate, Resource::kCompute, -1, rates.device_update_numel);
    sheet.add(on(Amount::kOptimizer, tier), kUpdate, Resource::kUpdate, 1, rates.update_numel);
  }
}

constexpr std::size_t kMostEnds = 4;  // per phase

// Return the resources of states that move.
std::vector<Resource> prefetching() {
  std::vector<Resource> all{Resource::kLinkUp};
  for (const Tier tier : kRequestTiers) all.insert(all.end(), {requests_of(tier), reads_of(tier)});
  return all;
}
std::vector<Resource> offloading() {
  std::vector<Resource> all{Resource::kLinkDown};
  for (const Tier tier : kRequestTiers) all.insert(all.end(), {requests_of(tier), writes_of(tier)});
  return all;
}
std::vector<Resource> updating() {
  std::vector<Resource> all{Resource::kLinkUp, Resource::kLinkDown};
  for (const Tier tier : kRequestTiers) all.insert(all.end(), {requests_of(tier), reads_of(tier), writes_of(tier)});
  return all;
}

// Returns the positions of units within a phase, without duplicates. The position with the least computation to overlap
// with is first.
std::vector<double> places_of(const StepModel& model, const std::vector<double>& at, bool first_is_least) {
  std::vector<double> places;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (first_is_least || model.units[i].trainable) places.push_back(at[i]);
  }
  std::ranges::sort(places);
  if (!first_is_least) std::ranges::reverse(places);
  places.erase(std::ranges::unique(places).begin(), places.end());
  // Positions near the end of the phase have the least to overlap with, and matter most.
  if (places.size() > kMostEnds) places.resize(kMostEnds);
  return places;
}

void add_ends(std::vector<PhaseEnd>& ends, const StepModel& model, StepPhase phase, const std::vector<double>& at) {
  const bool forward = phase == StepPhase::kForward;
  for (const double place : places_of(model, at, forward)) {
    PhaseEnd end{.phase = phase, .apart = forward ? 1 - place : place, .units = std::vector<bool>(at.size())};
    for (std::size_t i = 0; i < at.size(); ++i) end.units[i] = forward ? at[i] <= place : at[i] >= place;
    for (const Resource resource : forward ? prefetching() : offloading()) {
      end.resource = resource;
      ends.push_back(end);
    }
  }
}

// Nothing is prefetched, so no fetch is hidden.
void add_min_budget_ends(std::vector<PhaseEnd>& ends, const StepModel& model) {
  const std::vector<bool> all(model.units.size(), true);
  for (const Resource resource : prefetching()) {
    ends.push_back({StepPhase::kBackward, resource, 1, all, /*fetches=*/true});
    if (model.rates.link_up > 0) ends.push_back({StepPhase::kForward, resource, 1, all, /*fetches=*/true});
  }
}

// Sharded parameters are updated while the next forward pass computes.
void add_update_ends(std::vector<PhaseEnd>& ends, const StepModel& model) {
  const std::vector<bool> all(model.units.size(), true);
  const auto add = [&](Resource resource, double apart, const std::vector<bool>& units) {
    ends.push_back({.phase = StepPhase::kUpdate, .resource = resource, .apart = apart, .units = units});
  };
  add(Resource::kCompute, 1, all);
  add(Resource::kUpdate, model.rates.device_update_numel > 0 ? 0 : 1, all);
  for (const Resource resource : updating()) add(resource, 0, all);
  const std::vector<double>& at = model.profile.used_at;
  if (at.empty()) return;
  std::vector<double> places = places_of(model, at, /*first_is_least=*/true);
  // If the update takes longer than the pass, the pass waits for the last unit to be used.
  if (const double last = std::ranges::max(at); last > places.back()) places.push_back(last);
  for (const double place : places) {
    std::vector<bool> units(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) units[i] = at[i] <= place;
    // Only the first of several forward passes waits.
    for (const Resource resource : updating()) add(resource, 1 - place / model.placement.accumulate, units);
  }
}

}  // namespace

std::vector<PhaseEnd> phase_ends(const StepModel& model) {
  const StepProfile& profile = model.profile;
  std::vector<PhaseEnd> ends;
  for (const auto& [phase, at] :
       {std::pair{StepPhase::kForward, &profile.used_at}, std::pair{StepPhase::kBackward, &profile.gradient_at}}) {
    ZERO_CHECK(at->empty() || at->size() == model.units.size(), "a profile of {} units for {}", at->size(),
               model.units.size());
    add_ends(ends, model, phase, *at);
  }
  if (!model.placement.parameter_sharded) return ends;
  if (profile.min_budget) add_min_budget_ends(ends, model);
  add_update_ends(ends, model);
  return ends;
}

double cost_at_end(const StepCosts& costs, Amount amount, const PhaseEnd& end) {
  const auto in = [&](StepPhase phase) {
    return costs[index_of(amount)][static_cast<std::size_t>(phase)][static_cast<std::size_t>(end.resource)];
  };
  const bool parameter = amount < Amount::kGradient;
  const bool gradient = !parameter && amount < Amount::kOptimizer;
  switch (end.phase) {
    case StepPhase::kForward:
      return parameter ? in(end.phase) : 0;
    case StepPhase::kBackward:
      return (end.fetches ? parameter : gradient) ? in(end.phase) : 0;
    case StepPhase::kUpdate:
      return in(StepPhase::kUpdate) + in(StepPhase::kForward);
  }
  return 0;
}

double seconds_at_end(const StepCosts& costs, const Amounts& amounts, const PhaseEnd& end) {
  double seconds = 0;
  for (std::size_t amount = 0; amount < amounts.size(); ++amount)
    seconds += cost_at_end(costs, static_cast<Amount>(amount), end) * amounts[amount];
  return seconds;
}

ElementBytes element_bytes(const StepModel& model, const Unit& unit) {
  const auto size = static_cast<std::int64_t>(size_of(unit.dtype));
  if (!unit.trainable) return {.parameter = size};
  const std::int64_t master = unit.dtype == DType::kFloat32 ? 0 : 4;
  const std::int64_t gradient = model.placement.fp32_gradient() ? 4 : size;
  return {.parameter = size,
          .gradient = model.placement.num_gradients() * gradient,
          .optimizer = model.optimizer.value_bytes(unit.matrices()) + master};
}

StepCosts costs_of(const StepModel& model, const Unit& unit) {
  const Placement& placement = model.placement;
  ElementBytes bytes = element_bytes(model, unit);
  bytes.gradient /= placement.num_gradients();  // only one of the held gradients moves
  if (unit.trainable) bytes.optimizer -= model.optimizer.outer_bytes();
  CostSheet sheet(model.rates);
  if (placement.parameter_sharded) {
    add_prefetches(sheet, StepPhase::kForward, gathers(model.profile.forward_gathers, model, unit) * bytes.parameter);
    add_prefetches(sheet, StepPhase::kBackward, gathers(model.profile.backward_gathers, model, unit) * bytes.parameter);
  }
  if (!unit.trainable) return sheet.costs();
  const bool own_master = unit.dtype == DType::kFloat32;
  if (placement.gradient_sharded) add_offloads(sheet, placement.accumulate, bytes.gradient);
  const int reads = model.optimizer.num_reads;
  add_update(sheet, bytes, own_master, placement.parameter_sharded, placement.rounds_gradient(unit.dtype), reads,
             reads + (unit.factored ? 1 : 0));
  add_arithmetic(sheet, model.rates);
  return sheet.costs();
}

Amounts amounts_of(const StepModel& model, const Unit& unit, const UnitTiers& tiers) {
  Amounts amounts{};
  const auto set = [&](Amount amount, std::int64_t numel) {
    amounts[index_of(amount)] = static_cast<double>(std::max<std::int64_t>(numel, 0));
  };
  const auto set_lower = [&](Amount state, const TierSplit& split) {
    for (const Tier tier : kLowerTiers) set(on(state, tier), split.numel(tier));
  };
  set_lower(Amount::kParameter, tiers.parameter);
  if (!unit.trainable) return amounts;
  set_lower(Amount::kGradient, tiers.gradient);
  set_lower(Amount::kOptimizer, tiers.optimizer);
  set(Amount::kUpdated, tiers.optimizer.numel());
  // Every state's first elements are on the device, so one boundary describes it. Whole states never leave the device.
  const std::int64_t updated = tiers.optimizer.numel();
  const std::int64_t parameter = model.placement.parameter_sharded ? tiers.parameter.device : updated;
  const std::int64_t gradient = model.placement.gradient_sharded ? tiers.gradient.device : updated;
  set(Amount::kGradientAbove, gradient - tiers.optimizer.device);
  set(Amount::kGradientBelow, tiers.optimizer.device - gradient);
  set(Amount::kParameterAbove, parameter - tiers.optimizer.device);
  set(Amount::kParameterBelow, tiers.optimizer.device - parameter);
  return amounts;
}

}  // namespace zero
