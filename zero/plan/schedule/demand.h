// Demand: chooses the actions for an event without a schedule: in the first step, after a trace mismatch, in an
// evaluation.
//
//   Demand demand(units, world, placement, budget);
//   demand.actions({EventKind::kAccess, u}, held, schedule.reduce_order);      // {release ..., gather u}
//
// It is the second source of actions, beside build_schedule(). It knows the units that are gathered now, but no later
// events. A unit is gathered when it is accessed. If the budget has no room, other units are released first, least
// recently used first. Units in use stay, even if that exceeds the budget. Under the min budget all other units are
// released. If secondary parts are kept, every gather keeps its part, because Demand does not know whether the unit
// will be gathered again.
//
// Units are reduced in one order: a complete unit waits for the units before it. So the order of collectives never
// depends on which gradients a rank has. Gradients that are missing at the end of the backward pass count as zeros.
// Local; returns the same actions on every rank whose model does the same.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "zero/plan/schedule/residency.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

// A rank's units and gradients at an event.
struct Holdings {
  const Residency& gathered;
  std::vector<int> releasable;  // gathered units that nobody uses now, least recently used first
  int finished_backwards = 0;   // backward passes of this step that have ended
  // all gradients of the unit are present and not yet reduced
  std::function<bool(int unit)> complete = [](int) { return false; };
  // the unit was reduced in this pass, and no gradient was added since
  std::function<bool(int unit)> reduced = [](int) { return false; };
  std::function<bool(int unit)> kept = [](int) { return false; };  // the unit's secondary part is current
};

class Demand {
 public:
  // `units` must outlive the object.
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
