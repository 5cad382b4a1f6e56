#include "zero/plan/schedule.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/check.h"
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

// Fills the stations' gathers and releases: Belady's rule over the known future, one unit gathered ahead. What comes
// from a lower tier is not: a gather would wait for it, and it is fetched ahead instead.
class GatherPlanner {
 public:
  GatherPlanner(Schedule& schedule, const std::vector<Unit>& units, int world)
      : schedule_(schedule),
        units_(units),
        world_(world),
        touch_after_(schedule.stations.size(), kNever),
        next_touch_(units.size(), kNever),
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
    if (comes_from_below(schedule_.placement, units_[static_cast<std::size_t>(next->event.unit)], world_)) return;
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

// A unit whose parameters lie off the device begins to come when the unit before it has been gathered: while that one
// computes.
void fetch_ahead(Schedule& schedule, const std::vector<Unit>& units, int world) {
  Station* before = nullptr;
  for (Station& station : schedule.stations) {
    const std::vector<Move> moves = station.moves;
    for (const Move& move : moves) {
      if (move.kind != MoveKind::kGather) continue;
      const bool away = comes_from_below(schedule.placement, units[static_cast<std::size_t>(move.unit)], world);
      if (away && before != nullptr && before != &station) before->moves.push_back({MoveKind::kFetch, move.unit});
      before = &station;
    }
  }
}

std::vector<Move> step_moves(const Placement& placement, const std::vector<Unit>& units) {
  std::vector<Move> moves;
  // In the order of the next forward, so that what it needs first is ready first.
  for (const Unit& unit : units) {
    if (!unit.trainable) continue;
    if (!placement.optimizer_sharded) moves.push_back({MoveKind::kGatherGradient, unit.index});
    moves.push_back({MoveKind::kUpdate, unit.index});
    if (placement.optimizer_sharded && !placement.parameter_sharded) moves.push_back({MoveKind::kGather, unit.index});
  }
  return moves;
}

}  // namespace

Schedule build_schedule(const Trace& trace, const std::vector<Unit>& units, int world, const Placement& placement,
                        GatherBudget budget) {
  Schedule schedule{.placement = placement, .budget = budget};
  schedule.reduce_order = trace.events.empty() ? reversed_order(units) : completion_order(trace, units);
  schedule.step = step_moves(placement, units);
  int finished_backwards = 0;
  for (const Event& event : trace.events) {
    schedule.stations.push_back({event, {}});
    if (event.kind == EventKind::kEndBackward) ++finished_backwards;
    const bool last = finished_backwards >= placement.accumulate - 1;
    if (event.kind == EventKind::kGradient && (placement.reduce_each || last))
      schedule.stations.back().moves.push_back({MoveKind::kReduce, event.unit});
  }
  if (placement.parameter_sharded) GatherPlanner(schedule, units, world).run();
  if (!budget.strict()) fetch_ahead(schedule, units, world);
  return schedule;
}

ScheduleCost simulate(const Schedule& schedule, const std::vector<Unit>& units, int world) {
  ScheduleCost cost;
  Residency resident(units, world);
  const auto issue = [&](const Move& move, bool keeps) {
    const std::int64_t block =
        resident.bytes_of(move.unit) / world;  // parameters and gradients cross in the unit's type
    switch (move.kind) {
      case MoveKind::kGather:
        cost.sent_bytes += (world - 1) * block;
        ++cost.num_gathers;
        if (keeps) resident.add(move.unit);
        cost.gathered_peak_bytes = std::max(cost.gathered_peak_bytes, resident.bytes());
        break;
      case MoveKind::kGatherGradient:
        cost.sent_bytes += (world - 1) * block;
        break;
      case MoveKind::kReduce:
        cost.sent_bytes += (world - 1) * block;
        ++cost.num_reduces;
        break;
      case MoveKind::kRelease:
        resident.remove(move.unit);
        break;
      case MoveKind::kUpdate:
        break;
      case MoveKind::kFetch:
        ++cost.num_fetches;
        break;
    }
  };
  for (const Station& station : schedule.stations) {
    for (const Move& move : station.moves) issue(move, true);
    const Event& event = station.event;
    if (schedule.placement.parameter_sharded && event.kind == EventKind::kTouch) {
      ZERO_CHECK(resident.holds(event.unit), "unit {} is touched but not gathered", event.unit);
      for (int unit : event.pinned) ZERO_CHECK(resident.holds(unit), "unit {} is in use but was released", unit);
      if (!schedule.budget.strict() && resident.bytes() <= schedule.budget.capacity_bytes) continue;
      for (int unit : resident.units()) {
        ZERO_CHECK(unit == event.unit || contains(event.pinned, unit), "unit {} is held beyond the budget", unit);
      }
    }
  }
  for (const Move& move : schedule.step) issue(move, false);
  return cost;
}

std::int64_t gathered_bytes(const Unit& unit, int world) {
  return padded_numel(unit, world) * static_cast<std::int64_t>(size_of(unit.dtype));
}

std::string describe(const Move& move, const std::vector<Unit>& units) {
  const std::string& name = units.at(static_cast<std::size_t>(move.unit)).name;
  switch (move.kind) {
    case MoveKind::kFetch:
      return "fetch " + name;
    case MoveKind::kGather:
      return "gather " + name;
    case MoveKind::kGatherGradient:
      return "gather gradient of " + name;
    case MoveKind::kRelease:
      return "release " + name;
    case MoveKind::kReduce:
      return "reduce " + name;
    case MoveKind::kUpdate:
      return "update " + name;
  }
  return "";
}

std::string print_schedule(const Schedule& schedule, const std::vector<Unit>& units) {
  std::string text;
  const auto line = [&](const std::string& event, const std::vector<Move>& moves) {
    std::vector<std::string> words;
    for (const Move& move : moves) words.push_back(describe(move, units));
    text += fmt::format("{:<32}{}{}\n", event, words.empty() ? "" : "| ", fmt::join(words, ", "));
  };
  for (const Station& station : schedule.stations) {
    if (station.event.kind == EventKind::kStep) {
      auto moves = station.moves;
      moves.insert(moves.end(), schedule.step.begin(), schedule.step.end());
      line("step", moves);
    } else {
      line(describe(station.event, units), station.moves);
    }
  }
  return text;
}

}  // namespace zero
