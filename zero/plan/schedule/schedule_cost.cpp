// Replays a schedule without a model to find its cost.
#include <algorithm>

#include "zero/base/error/check.h"
#include "zero/plan/schedule/residency.h"
#include "zero/plan/schedule/schedule.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/mesh.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/secondary.h"

namespace zero {
namespace {

// Bytes of states that a step reads from and writes to the tiers below the device.
class LowerTiers {
 public:
  LowerTiers(const Placement& placement, const std::vector<Unit>& units, int world, const OptimizerSpec& spec,
             ScheduleCost& cost)
      : placement_(placement), units_(units), world_(world), spec_(spec), cost_(cost), num_sums_(units.size(), 0) {}

  void fetch(int index) {
    const Unit& unit = at(index);
    read(tiers(unit).parameter, parameter_bytes(unit));
  }

  // The second and later sums of a step add to the sum before, which is read first.
  void offload(int index) {
    const Unit& unit = at(index);
    const TierSplit gradient = tiers(unit).gradient;
    if (num_sums_[static_cast<std::size_t>(index)]++ > 0) read(gradient, gradient_bytes(unit));
    write(gradient, gradient_bytes(unit));
  }

  // Reads every byte of the updated range, with some rules twice, and writes all states but the gradient.
  void update(int index) {
    const Unit& unit = at(index);
    const UnitTiers lies = tiers(unit);
    const auto read_for_update = [&](const TierSplit& split, std::int64_t bytes) {
      for (int i = 0; i < spec_.num_reads; ++i) read(split, bytes);
    };
    read_for_update(lies.parameter, parameter_bytes(unit));
    write(lies.parameter, parameter_bytes(unit));
    const bool own_master = unit.dtype == DType::kFloat32;
    if (placement_.rounds_gradient(unit.dtype)) {  // an extra pass rounds the sum on its tier
      read(lies.gradient, gradient_bytes(unit));
      write(lies.gradient, gradient_bytes(unit));
    }
    read_for_update(lies.gradient, gradient_bytes(unit));
    // an extra pass before the update computes the sums of rows and columns
    if (unit.factored) read(lies.gradient, gradient_bytes(unit));
    const auto update_state = [&](std::int64_t bytes) {
      read_for_update(lies.optimizer, bytes);
      write(lies.optimizer, bytes);
    };
    if (!own_master) update_state(sizeof(float));
    for (const StateSpec& state : spec_.states) {
      if (state.kept_by(unit.matrices()) && !state.outer) update_state(state.value_bytes());
    }
  }

 private:
  const Unit& at(int index) const { return units_[static_cast<std::size_t>(index)]; }
  UnitTiers tiers(const Unit& unit) const { return tiers_of(placement_, unit, world_); }
  static std::int64_t parameter_bytes(const Unit& unit) { return static_cast<std::int64_t>(size_of(unit.dtype)); }
  std::int64_t gradient_bytes(const Unit& unit) const {
    return static_cast<std::int64_t>(size_of(placement_.fp32_gradient() ? DType::kFloat32 : unit.dtype));
  }

  void read(const TierSplit& split, std::int64_t element_bytes) { add(split, element_bytes, &TierTraffic::read_bytes); }
  void write(const TierSplit& split, std::int64_t element_bytes) {
    add(split, element_bytes, &TierTraffic::written_bytes);
  }
  void add(const TierSplit& split, std::int64_t element_bytes, std::int64_t TierTraffic::*bytes) {
    for (const Tier tier : kLowerTiers) cost_.tiers[tier].*bytes += tier_bytes(split, tier, element_bytes);
  }

  const Placement& placement_;
  const std::vector<Unit>& units_;
  int world_;
  const OptimizerSpec& spec_;
  ScheduleCost& cost_;
  std::vector<int> num_sums_;  // sums of each unit in this step
};

}  // namespace

ScheduleCost simulate(const Schedule& schedule, const std::vector<Unit>& units, int world, const OptimizerSpec& spec) {
  ScheduleCost cost;
  Residency resident(units, world);
  std::vector<bool> kept(units.size(), false);  // for each unit: whether its secondary part is current
  LowerTiers lower(schedule.placement, units, world, spec, cost);
  const auto size = [&](int unit) {
    return static_cast<std::int64_t>(size_of(units[static_cast<std::size_t>(unit)].dtype));
  };
  const auto issue = [&](const Action& action, bool keeps) {
    const Unit& unit = units[static_cast<std::size_t>(action.unit)];
    switch (action.kind) {
      case ActionKind::kGather:
        if (action.way == GatherWay::kParts) {
          const std::int64_t sent = part_gather_bytes(unit, world, schedule.placement.secondary_group);
          ZERO_CHECK(kept[static_cast<std::size_t>(action.unit)], "unit {} has no part that is current", action.unit);
          cost.sent_bytes += sent;
          cost.part_sent_bytes += sent;
          ++cost.num_part_gathers;
        } else {
          cost.sent_bytes += gather_bytes(unit, world, schedule.placement.wire.gather);
          kept[static_cast<std::size_t>(action.unit)] = action.way == GatherWay::kAllAndKeep;
        }
        ++cost.num_gathers;
        if (keeps) resident.add(action.unit);
        cost.gathered_peak_bytes = std::max(cost.gathered_peak_bytes, resident.bytes());
        break;
      case ActionKind::kGatherGradient:
        cost.sent_bytes +=
            gather_bytes(unit, world, WireCodec::kNone) * (schedule.placement.fp32_sums ? 4 / size(action.unit) : 1);
        break;
      case ActionKind::kReduce:
        cost.sent_bytes += reduction_bytes(unit, world, schedule.placement, schedule.placement.wire.reduce);
        if (const int copies = schedule.placement.copies; copies > 1)
          cost.crossing_bytes +=
              crossing_bytes(unit, {.shard = world, .copies = copies}, schedule.placement.wire.outer);
        ++cost.num_reduces;
        break;
      case ActionKind::kRelease:
        resident.remove(action.unit);
        break;
      case ActionKind::kUpdate:
        lower.update(action.unit);
        cost.sent_bytes += update_sent_bytes(unit, world, schedule.placement);
        break;
      case ActionKind::kPrefetch:
        lower.fetch(action.unit);
        ++cost.num_prefetches;
        break;
      case ActionKind::kOffload:
        lower.offload(action.unit);
        ++cost.num_offloads;
        break;
    }
  };
  for (const ScheduleEntry& entry : schedule.entries) {
    for (const Action& action : entry.actions) issue(action, true);
    const Event& event = entry.event;
    if (schedule.placement.parameter_sharded && event.kind == EventKind::kAccess) {
      ZERO_CHECK(resident.holds(event.unit), "unit {} is accessed but not gathered", event.unit);
      for (int unit : event.pinned) ZERO_CHECK(resident.holds(unit), "unit {} is in use but was released", unit);
      if (!schedule.budget.is_min() && resident.bytes() <= schedule.budget.capacity_bytes) continue;
      for (int unit : resident.units()) {
        ZERO_CHECK(unit == event.unit || std::ranges::count(event.pinned, unit) > 0,
                   "unit {} is held beyond the budget", unit);
      }
    }
  }
  for (const Action& action : schedule.step) issue(action, false);
  return cost;
}

}  // namespace zero
