#include "zero/plan/schedule/demand.h"

namespace zero {
namespace {

std::vector<Action> release_all(const Holdings& held) {
  std::vector<Action> actions;
  for (const int unit : held.releasable) actions.push_back({ActionKind::kRelease, unit});
  return actions;
}

}  // namespace

std::vector<Action> Demand::actions(const Event& event, const Holdings& held,
                                    const std::vector<int>& reduce_order) const {
  switch (event.kind) {
    case EventKind::kAccess:
      return gather(event.unit, held);
    case EventKind::kBackward:
    case EventKind::kEndBackward:
      return budget_.is_min() ? release_all(held) : std::vector<Action>{};
    case EventKind::kGradient:
      return reduces_in_pass(placement_, held.finished_backwards) ? reduce(event.unit, held, reduce_order)
                                                                  : std::vector<Action>{};
    case EventKind::kStep:
      break;
  }
  return release_all(held);  // the update makes every gathered copy stale
}

std::vector<Action> Demand::gather(int unit, const Holdings& held) const {
  if (!placement_.parameter_sharded) return {};
  std::vector<Action> actions;
  std::int64_t bytes = held.gathered.bytes() + (held.gathered.holds(unit) ? 0 : held.gathered.bytes_of(unit));
  for (const int victim : held.releasable) {
    if (!budget_.is_min() && bytes <= budget_.capacity_bytes) break;
    if (victim == unit) continue;
    actions.push_back({ActionKind::kRelease, victim});
    bytes -= held.gathered.bytes_of(victim);
  }
  const GatherWay way = !keeps_parts(placement_, budget_) ? GatherWay::kAll
                        : held.kept(unit)                 ? GatherWay::kParts
                                                          : GatherWay::kAllAndKeep;
  actions.push_back({ActionKind::kGather, unit, way});
  return actions;
}

std::vector<Action> Demand::reduce(int completed, const Holdings& held, const std::vector<int>& reduce_order) const {
  std::vector<Action> actions;
  for (const int unit : reduce_order) {
    if (held.reduced(unit)) continue;
    if (!held.complete(unit) && unit != completed) break;
    for (const Action& action : reduce_actions(placement_, (*units_)[static_cast<std::size_t>(unit)], world_))
      actions.push_back(action);
  }
  return actions;
}

}  // namespace zero
