// Demand: what to do at an event that no schedule foresees: in the first step, in a step that departs from its trace, in
// an evaluation. The second producer of actions, beside build_schedule(); it knows the present and nothing of the
// future.
//
//   Demand demand(units, world, placement, budget);
//   demand.actions({EventKind::kAccess, u}, held, schedule.reduce_order);      // {release ..., gather u}
//
// A unit is gathered when it is accessed. What would not fit the budget beside it is released before, the least recently
// used first; what is in use stays, even where that exceeds the budget. Under the minimum budget everything else goes.
//
// Units are reduced in one order: one that is complete waits for those before it, so that the order of collectives never
// depends on which gradients a rank happens to have. What is still missing when the backward pass ends comes as zeros.
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
