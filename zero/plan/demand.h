// Demand: the actions for an event without a schedule: in the first step, after a trace mismatch, in an evaluation. It
// is the second producer of actions, beside build_schedule(); it knows the units that are gathered now, and nothing of
// later events.
//
//   Demand demand(units, world, placement, budget);
//   demand.actions({EventKind::kAccess, u}, held, schedule.reduce_order);      // {release ..., gather u}
//
// A unit is gathered when it is accessed. Where secondary parts are kept, one of each gathered unit is, as nobody knows here
// whether it will be gathered again. If the budget has no room for it, other units are released before, the least
// recently used first. Units in use stay, even where that exceeds the budget. Under the min budget all others go.
//
// Units are reduced in one order: a complete unit waits for those before it, so that the order of collectives never
// depends on the gradients that a rank happens to have. Gradients that are missing at the end of the backward pass
// count as zeros.
//
// Local; the same actions on every rank whose model does the same.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "zero/plan/residency.h"
#include "zero/plan/schedule.h"

namespace zero {

// What a rank holds when an event comes.
struct Holdings {
  const Residency& gathered;
  std::vector<int> releasable;  // of those units, the ones that nobody uses now, the least recently used first
  int finished_backwards = 0;   // of this step
  std::function<bool(int unit)> complete = [](int) { return false; };  // all of its gradients are there, and wait
  std::function<bool(int unit)> reduced = [](int) { return false; };   // in this pass, and nothing came since
  std::function<bool(int unit)> kept = [](int) { return false; };      // its secondary part is current
};

class Demand {
 public:
  // `units` outlive it.
  Demand(const std::vector<Unit>& units, int world, Placement placement, GatherBudget budget)
      : units_(&units), world_(world), placement_(std::move(placement)), budget_(budget) {}

  std::vector<Action> actions(const Event& event, const Holdings& held, const std::vector<int>& reduce_order) const;

 private:
  std::vector<Action> gather(int unit, const Holdings& held) const;
  std::vector<Action> reduce(int completed, const Holdings& held, const std::vector<int>& reduce_order) const;

  const std::vector<Unit>* units_;
  int world_;
  Placement placement_;
  GatherBudget budget_;
};

}  // namespace zero
