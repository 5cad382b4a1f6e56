#include "zero/plan/schedule.h"

#include <algorithm>

#include "zero/plan/partition.h"
#include "zero/plan/residency.h"

namespace zero {
namespace {

bool contains(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// This rank's shard of the parameters must come from a lower tier before the unit can be gathered.
bool comes_from_below(const Placement& placement, const Unit& unit, int world) {
  return !tiers_of(placement, unit, world).parameter.on_device();
}

// The unit's update waits for what comes from a lower tier.
bool is_updated_from_below(const Placement& placement, const Unit& unit, int world) {
  const UnitTiers tiers = tiers_of(placement, unit, world);
  return unit.trainable && !(tiers.gradient.on_device() && tiers.optimizer.on_device());
}

// Fills the stations' gathers and releases: Belady's rule over the known future, one unit gathered ahead. What comes
// from a lower tier is not: a gather would wait for it, and it is fetched ahead instead. Nor is, the first time in a
// step, what is updated from there where updates are deferred: the last one goes on until then, and the unit at hand
// would wait for it.
class GatherPlanner {
 public:
  GatherPlanner(Schedule& schedule, const std::vector<Unit>& units, int world)
      : schedule_(schedule),
        units_(units),
        world_(world),
        touch_after_(schedule.stations.size(), kNever),
        next_touch_(units.size(), kNever),
        gathered_(units.size(), false),
        resident_(units, world) {
    for (std::size_t at = schedule.stations.size(); at-- > 0;) {
      const Event& event = schedule.stations[at].event;
      if (event.kind != EventKind::kTouch) continue;
      touch_after_[at] = next_touch(event.unit);
      next_touch_[static_cast<std::size_t>(event.unit)] = at;
    }
  }

  void run() {
    for (std::size_t at = 0; at < schedule_.stations.size(); ++at) {
      const Event& event = schedule_.stations[at].event;
      if (event.kind == EventKind::kTouch) {
        next_touch_[static_cast<std::size_t>(event.unit)] = touch_after_[at];
        touch(at, event);
      } else if (event.kind == EventKind::kStep || (schedule_.budget.strict() && ends_a_pass(event))) {
        for (int unit : resident_.units()) release(at, unit);
      }
    }
  }

 private:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  static bool ends_a_pass(const Event& event) {
    return event.kind == EventKind::kBackward || event.kind == EventKind::kEndBackward;
  }

  void touch(std::size_t at, const Event& event) {
    for (int victim : releasable(event, event.unit)) {
      if (fits(event.unit, 0)) break;
      release(at, victim);
    }
    if (!resident_.holds(event.unit)) gather(at, event.unit);
    if (!schedule_.budget.strict()) gather_ahead(at, event);
  }

  // Begins the gather for the next touch. That hides the wait for late peers and must cost nothing: it gives up only
  // units that Belady's rule would give up at that touch as well, so none that is needed before one in use now.
  void gather_ahead(std::size_t at, const Event& event) {
    const auto next =
        std::find_if(schedule_.stations.begin() + static_cast<std::ptrdiff_t>(at) + 1, schedule_.stations.end(),
                     [&](const Station& s) { return s.event.kind == EventKind::kTouch && s.event.unit != event.unit; });
    if (next == schedule_.stations.end() || resident_.holds(next->event.unit)) return;
    const Unit& unit = units_[static_cast<std::size_t>(next->event.unit)];
    if (comes_from_below(schedule_.placement, unit, world_)) return;
    const bool may_be_updated = schedule_.budget.defers_updates && !gathered_[static_cast<std::size_t>(unit.index)];
    if (may_be_updated && is_updated_from_below(schedule_.placement, unit, world_)) return;
    std::size_t in_use_again = next_touch(event.unit);
    for (int unit : event.pinned) in_use_again = std::max(in_use_again, next_touch(unit));
    std::vector<int> victims;
    std::int64_t freed = 0;
    for (int victim : releasable(event, next->event.unit)) {
      if (fits(next->event.unit, freed)) break;
      if (next_touch(victim) < in_use_again) return;
      victims.push_back(victim);
      freed += resident_.bytes_of(victim);
    }
    if (!fits(next->event.unit, freed)) return;
    for (int victim : victims) release(at, victim);
    gather(at, next->event.unit);
  }

  // Nothing more must go before `unit` may be gathered. Strict: whatever is not in use goes.
  bool fits(int unit, std::int64_t freed) const {
    const std::int64_t wanted = resident_.holds(unit) ? 0 : resident_.bytes_of(unit);
    return !schedule_.budget.strict() && resident_.bytes() - freed + wanted <= schedule_.budget.capacity_bytes;
  }

  // Units held that the event does not need, the one touched again last first.
  std::vector<int> releasable(const Event& event, int unit) const {
    std::vector<int> result;
    for (int held : resident_.units()) {
      if (held != unit && held != event.unit && !contains(event.pinned, held)) result.push_back(held);
    }
    std::stable_sort(result.begin(), result.end(), [&](int a, int b) { return next_touch(a) > next_touch(b); });
    return result;
  }

  std::size_t next_touch(int unit) const { return next_touch_[static_cast<std::size_t>(unit)]; }

  void gather(std::size_t at, int unit) {
    resident_.add(unit);
    gathered_[static_cast<std::size_t>(unit)] = true;
    schedule_.stations[at].moves.push_back({MoveKind::kGather, unit});
  }
  void release(std::size_t at, int unit) {
    resident_.remove(unit);
    schedule_.stations[at].moves.push_back({MoveKind::kRelease, unit});
  }

  Schedule& schedule_;
  const std::vector<Unit>& units_;
  int world_;
  std::vector<std::size_t> touch_after_;  // by station: the next touch of the same unit
  std::vector<std::size_t> next_touch_;   // by unit, after the station at hand
  std::vector<bool> gathered_;            // by unit: already in this step
  Residency resident_;
};

std::vector<int> reversed_order(const std::vector<Unit>& units) {
  std::vector<int> order;
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    if (unit->trainable) order.push_back(unit->index);
  }
  return order;
}

// The order in which the last backward pass of the trace completed its gradients; units it never mentions come last.
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

// A unit whose parameters lie off the device begins to come when a unit before it has been gathered: the one right
// before it, or an earlier one, as many as the budget lets be on their way at once. Where none was before it, and under
// the strict budget, it comes for its gather alone.
void add_fetches(Schedule& schedule, const std::vector<Unit>& units, int world) {
  struct Gathered {
    std::size_t station;
    std::int64_t coming;  // elements that come for it
  };
  std::vector<Gathered> before;  // in order; of a station the last one alone
  for (std::size_t place = 0; place < schedule.stations.size(); ++place) {
    std::vector<Move>& moves = schedule.stations[place].moves;
    for (std::size_t at = 0; at < moves.size(); ++at) {
      const Move move = moves[at];
      if (move.kind != MoveKind::kGather) continue;
      const TierSplit lies = tiers_of(schedule.placement, units[static_cast<std::size_t>(move.unit)], world).parameter;
      const std::int64_t coming = lies.numel() - lies.device;
      const bool first = before.empty() || before.back().station == place;
      if (coming > 0 && (first || schedule.budget.strict())) {
        moves.insert(moves.begin() + static_cast<std::ptrdiff_t>(at++), {MoveKind::kFetch, move.unit});
      } else if (coming > 0) {
        std::size_t from = before.size() - 1;
        std::int64_t on_their_way = coming;
        while (from > 0 && (on_their_way += before[from].coming) <= schedule.budget.fetched_numel) --from;
        schedule.stations[before[from].station].moves.push_back({MoveKind::kFetch, move.unit});
      }
      if (!before.empty() && before.back().station == place) {
        before.back().coming += coming;
      } else {
        before.push_back({place, coming});
      }
    }
  }
}

// As the recorded step touched them first: the next forward wants them so. Units that it never touched come last.
std::vector<int> touch_order(const Trace& trace, const std::vector<Unit>& units) {
  std::vector<int> order;
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::kTouch && !contains(order, event.unit)) order.push_back(event.unit);
  }
  for (const Unit& unit : units) {
    if (!contains(order, unit.index)) order.push_back(unit.index);
  }
  return order;
}

// In the order of the next forward, so that what it needs first is ready first.
std::vector<Move> step_moves(const Trace& trace, const Placement& placement, const std::vector<Unit>& units) {
  std::vector<Move> moves;
  for (const int unit : touch_order(trace, units)) {
    if (!units[static_cast<std::size_t>(unit)].trainable) continue;
    if (!placement.optimizer_sharded) moves.push_back({MoveKind::kGatherGradient, unit});
    moves.push_back({MoveKind::kUpdate, unit});
    if (placement.optimizer_sharded && !placement.parameter_sharded) moves.push_back({MoveKind::kGather, unit});
  }
  return moves;
}

}  // namespace

std::vector<Move> reduce_moves(const Placement& placement, const Unit& unit, int world) {
  std::vector<Move> moves{{MoveKind::kReduce, unit.index}};
  if (!tiers_of(placement, unit, world).gradient.on_device()) moves.push_back({MoveKind::kSpill, unit.index});
  return moves;
}

Schedule build_schedule(const Trace& trace, const std::vector<Unit>& units, int world, const Placement& placement,
                        GatherBudget budget) {
  Schedule schedule{.placement = placement, .budget = budget};
  schedule.reduce_order = trace.events.empty() ? reversed_order(units) : completion_order(trace, units);
  schedule.step = step_moves(trace, placement, units);
  int finished_backwards = 0;
  for (const Event& event : trace.events) {
    schedule.stations.push_back({event, {}});
    if (event.kind == EventKind::kEndBackward) ++finished_backwards;
    const bool last = finished_backwards >= placement.accumulate - 1;
    if (event.kind == EventKind::kGradient && (placement.reduce_each || last))
      schedule.stations.back().moves = reduce_moves(placement, units[static_cast<std::size_t>(event.unit)], world);
  }
  if (placement.parameter_sharded) GatherPlanner(schedule, units, world).run();
  add_fetches(schedule, units, world);
  return schedule;
}

std::int64_t gathered_bytes(const Unit& unit, int world) {
  return padded_numel(unit, world) * static_cast<std::int64_t>(size_of(unit.dtype));
}

}  // namespace zero
