#include "zero/plan/schedule/schedule.h"

#include <algorithm>
#include <utility>

#include "zero/plan/schedule/residency.h"
#include "zero/plan/units/partition.h"

namespace zero {
namespace {

bool contains(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Returns whether this rank's shard of the parameters must be fetched from a lower tier before the unit can be
// gathered.
bool comes_from_below(const Placement& placement, const Unit& unit, int world) {
  return !tiers_of(placement, unit, world).parameter.on_device();
}

// Returns whether the unit's update must wait for states from a lower tier.
bool is_updated_from_below(const Placement& placement, const Unit& unit, int world) {
  const UnitTiers tiers = tiers_of(placement, unit, world);
  return unit.trainable && !(tiers.gradient.on_device() && tiers.optimizer.on_device());
}

// Fills the entries' gathers and releases: Belady's rule over the known future, with one unit gathered ahead. A unit
// whose shard is on a lower tier is prefetched instead of gathered ahead, unless the gather uses secondary parts. A
// unit's first gather of a step is also not ahead if its update reads a lower tier and updates overlap the forward
// pass. The current unit would wait for that update.
class GatherPlanner {
 public:
  GatherPlanner(Schedule& schedule, const std::vector<Unit>& units, int world)
      : schedule_(schedule),
        units_(units),
        world_(world),
        access_after_(schedule.entries.size(), kNever),
        next_access_(units.size(), kNever),
        gathered_(units.size(), false),
        first_(units.size()),
        resident_(units, world) {
    for (std::size_t at = schedule.entries.size(); at-- > 0;) {
      const Event& event = schedule.entries[at].event;
      if (event.kind != EventKind::kAccess) continue;
      access_after_[at] = next_access(event.unit);
      next_access_[static_cast<std::size_t>(event.unit)] = at;
    }
  }

  void run() {
    for (std::size_t at = 0; at < schedule_.entries.size(); ++at) {
      const Event& event = schedule_.entries[at].event;
      if (event.kind == EventKind::kAccess) {
        next_access_[static_cast<std::size_t>(event.unit)] = access_after_[at];
        access(at, event);
      } else if (event.kind == EventKind::kStep || (schedule_.budget.is_min() && ends_a_pass(event))) {
        for (int unit : resident_.units()) release(at, unit);
      }
    }
  }

 private:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  static bool ends_a_pass(const Event& event) {
    return event.kind == EventKind::kBackward || event.kind == EventKind::kEndBackward;
  }

  void access(std::size_t at, const Event& event) {
    for (int victim : releasable(event, event.unit)) {
      if (fits(event.unit, 0)) break;
      release(at, victim);
    }
    if (!resident_.holds(event.unit)) gather(at, event.unit);
    if (!schedule_.budget.is_min()) gather_ahead(at, event);
  }

  // Begins the gather for the next access, which hides the wait for late peers. It must cost nothing, so it releases
  // only units that Belady's rule would also release at that access. None of these is needed earlier than a unit in use
  // now.
  void gather_ahead(std::size_t at, const Event& event) {
    const auto next = std::find_if(
        schedule_.entries.begin() + static_cast<std::ptrdiff_t>(at) + 1, schedule_.entries.end(),
        [&](const ScheduleEntry& s) { return s.event.kind == EventKind::kAccess && s.event.unit != event.unit; });
    if (next == schedule_.entries.end() || resident_.holds(next->event.unit)) return;
    const Unit& unit = units_[static_cast<std::size_t>(next->event.unit)];
    const bool again = gathered_[static_cast<std::size_t>(unit.index)];
    const bool has_part = again && keeps_parts(schedule_.placement, schedule_.budget);
    if (!has_part && comes_from_below(schedule_.placement, unit, world_)) return;
    const bool may_be_updated = schedule_.budget.overlaps_updates && !again;
    if (may_be_updated && is_updated_from_below(schedule_.placement, unit, world_)) return;
    std::size_t in_use_again = next_access(event.unit);
    for (int unit : event.pinned) in_use_again = std::max(in_use_again, next_access(unit));
    std::vector<int> victims;
    std::int64_t freed = 0;
    for (int victim : releasable(event, next->event.unit)) {
      if (fits(next->event.unit, freed)) break;
      if (next_access(victim) < in_use_again) return;
      victims.push_back(victim);
      freed += resident_.bytes_of(victim);
    }
    if (!fits(next->event.unit, freed)) return;
    for (int victim : victims) release(at, victim);
    gather(at, next->event.unit);
  }

  // Returns whether `unit` may be gathered without further releases. Under the min budget it always returns false, so
  // all units that are not in use are released.
  bool fits(int unit, std::int64_t freed) const {
    const std::int64_t wanted = resident_.holds(unit) ? 0 : resident_.bytes_of(unit);
    return !schedule_.budget.is_min() && resident_.bytes() - freed + wanted <= schedule_.budget.capacity_bytes;
  }

  // Returns the gathered units that the event does not need, the unit with the farthest next access first.
  std::vector<int> releasable(const Event& event, int unit) const {
    std::vector<int> result;
    for (int held : resident_.units()) {
      if (held != unit && held != event.unit && !contains(event.pinned, held)) result.push_back(held);
    }
    std::stable_sort(result.begin(), result.end(), [&](int a, int b) { return next_access(a) > next_access(b); });
    return result;
  }

  std::size_t next_access(int unit) const { return next_access_[static_cast<std::size_t>(unit)]; }

  // Keeps a part only of units that this step gathers again.
  void gather(std::size_t at, int unit) {
    const auto index = static_cast<std::size_t>(unit);
    std::vector<Action>& actions = schedule_.entries[at].actions;
    resident_.add(unit);
    Action action{ActionKind::kGather, unit};
    if (!gathered_[index]) {
      first_[index] = {at, actions.size()};
    } else if (keeps_parts(schedule_.placement, schedule_.budget)) {
      const auto [entry, place] = first_[index];
      schedule_.entries[entry].actions[place].way = GatherWay::kAllAndKeep;
      action.way = GatherWay::kParts;
    }
    gathered_[index] = true;
    schedule_.entries[at].actions.push_back(action);
  }
  void release(std::size_t at, int unit) {
    resident_.remove(unit);
    schedule_.entries[at].actions.push_back({ActionKind::kRelease, unit});
  }

  Schedule& schedule_;
  const std::vector<Unit>& units_;
  int world_;
  std::vector<std::size_t> access_after_;                   // for each entry: the next access of the same unit
  std::vector<std::size_t> next_access_;                    // for each unit: the next access after the current entry
  std::vector<bool> gathered_;                              // for each unit: whether this step has gathered it
  std::vector<std::pair<std::size_t, std::size_t>> first_;  // for each unit: entry and index of that gather
  Residency resident_;
};

std::vector<int> reversed_order(const std::vector<Unit>& units) {
  std::vector<int> order;
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    if (unit->trainable) order.push_back(unit->index);
  }
  return order;
}

// Returns the order in which the trace's last backward pass completed the units' gradients. Units without a gradient
// event are last.
std::vector<int> completion_order(const Trace& trace, const std::vector<Unit>& units) {
  std::vector<int> order;
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::kBackward) order.clear();
    if (event.kind == EventKind::kGradient && !contains(order, event.unit)) order.push_back(event.unit);
  }
  for (int unit : reversed_order(units)) {
    if (!contains(order, unit)) order.push_back(unit);
  }
  return order;
}

// Adds a prefetch for each gather of parameters off the device. The prefetch begins after the gather of an earlier
// unit: the previous unit, or an earlier one if the budget allows more prefetches at once. Without an earlier unit, and
// under the min budget, it begins right before its own gather. A gather of secondary parts needs no prefetch, because
// parts are always on the device.
void add_prefetches(Schedule& schedule, const std::vector<Unit>& units, int world) {
  struct Gathered {
    std::size_t entry;
    std::int64_t coming;  // elements prefetched for this gather
  };
  std::vector<Gathered> before;  // in order; only the last one of an entry
  for (std::size_t place = 0; place < schedule.entries.size(); ++place) {
    std::vector<Action>& actions = schedule.entries[place].actions;
    for (std::size_t at = 0; at < actions.size(); ++at) {
      const Action action = actions[at];
      if (action.kind != ActionKind::kGather) continue;
      const TierSplit lies =
          tiers_of(schedule.placement, units[static_cast<std::size_t>(action.unit)], world).parameter;
      const std::int64_t coming = action.way == GatherWay::kParts ? 0 : lies.numel() - lies.device;
      const bool first = before.empty() || before.back().entry == place;
      if (coming > 0 && (first || schedule.budget.is_min())) {
        actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(at++), {ActionKind::kPrefetch, action.unit});
      } else if (coming > 0) {
        std::size_t from = before.size() - 1;
        std::int64_t on_their_way = coming;
        while (from > 0 && (on_their_way += before[from].coming) <= schedule.budget.prefetched_numel) --from;
        schedule.entries[before[from].entry].actions.push_back({ActionKind::kPrefetch, action.unit});
      }
      if (!before.empty() && before.back().entry == place) {
        before.back().coming += coming;
      } else {
        before.push_back({place, coming});
      }
    }
  }
}

// Returns the order of first accesses in the recorded step, because the next forward pass needs it. Units without
// access are last.
std::vector<int> access_order(const Trace& trace, const std::vector<Unit>& units) {
  std::vector<int> order;
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::kAccess && !contains(order, event.unit)) order.push_back(event.unit);
  }
  for (const Unit& unit : units) {
    if (!contains(order, unit.index)) order.push_back(unit.index);
  }
  return order;
}

// Lists the updates in the order of the next forward pass, so the units that it needs first are ready first. Matrices
// that are updated as wholes come before all others: they are updated completely in step(), and would block the reads
// ahead for other updates.
std::vector<Action> step_actions(const Trace& trace, const Placement& placement, const std::vector<Unit>& units) {
  std::vector<Action> actions;
  std::vector<int> order = access_order(trace, units);
  std::ranges::stable_partition(order,
                                [&](int unit) { return units[static_cast<std::size_t>(unit)].whole_matrices(); });
  for (const int unit : order) {
    if (!units[static_cast<std::size_t>(unit)].trainable) continue;
    if (!placement.optimizer_sharded) actions.push_back({ActionKind::kGatherGradient, unit});
    actions.push_back({ActionKind::kUpdate, unit});
    if (placement.optimizer_sharded && !placement.parameter_sharded) actions.push_back({ActionKind::kGather, unit});
  }
  return actions;
}

// Computes UpdateTiming::free_from.
std::vector<std::size_t> free_from(const Schedule& schedule, std::size_t num_units) {
  std::vector<std::size_t> free(num_units, 0);
  const auto not_before = [&free](int unit, std::size_t entry) {
    std::size_t& first = free[static_cast<std::size_t>(unit)];
    first = std::max(first, entry);
  };
  for (std::size_t at = 0; at < schedule.entries.size(); ++at) {
    const Event& event = schedule.entries[at].event;
    if (event.kind == EventKind::kAccess || event.kind == EventKind::kGradient) not_before(event.unit, at);
    for (const Action& action : schedule.entries[at].actions) {
      if (action.kind == ActionKind::kGather || action.kind == ActionKind::kPrefetch) not_before(action.unit, at + 1);
    }
  }
  return free;
}

}  // namespace

bool reduces_in_pass(const Placement& placement, int finished_backwards) {
  return placement.reduce_each || finished_backwards >= placement.accumulate - 1;
}

std::vector<Action> reduce_actions(const Placement& placement, const Unit& unit, int world) {
  std::vector<Action> actions{{ActionKind::kReduce, unit.index}};
  if (!tiers_of(placement, unit, world).gradient.on_device()) actions.push_back({ActionKind::kOffload, unit.index});
  return actions;
}

Schedule build_schedule(const Trace& trace, const std::vector<Unit>& units, int world, const Placement& placement,
                        GatherBudget budget) {
  Schedule schedule{.placement = placement, .budget = budget};
  schedule.reduce_order = trace.events.empty() ? reversed_order(units) : completion_order(trace, units);
  schedule.step = step_actions(trace, placement, units);
  int finished_backwards = 0;
  for (const Event& event : trace.events) {
    schedule.entries.push_back({event, {}});
    if (event.kind == EventKind::kEndBackward) ++finished_backwards;
    if (event.kind == EventKind::kGradient && reduces_in_pass(placement, finished_backwards))
      schedule.entries.back().actions = reduce_actions(placement, units[static_cast<std::size_t>(event.unit)], world);
  }
  if (placement.parameter_sharded) GatherPlanner(schedule, units, world).run();
  add_prefetches(schedule, units, world);
  schedule.updates = {.overlapped = budget.overlaps_updates, .delayed = placement.delayed_update};
  if (placement.delayed_update) schedule.updates.free_from = free_from(schedule, units.size());
  return schedule;
}

std::vector<int> updated_units(const Schedule& schedule) {
  std::vector<int> units;
  for (const Action& action : schedule.step) {
    if (action.kind == ActionKind::kUpdate) units.push_back(action.unit);
  }
  return units;
}

std::int64_t gathered_bytes(const Unit& unit, int world) {
  return padded_numel(unit, world) * static_cast<std::int64_t>(size_of(unit.dtype));
}

}  // namespace zero
