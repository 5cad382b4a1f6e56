// PlacementProgramme: the search for the best placement, as a linear programme.
//
//   PlacementProgramme programme(model);
//   programme.solve(budgets)->seconds
//
// Variables: for each class of units and each state, the fractions on host and disk (the rest is on the device); the
// fractions whose gradient or parameter is above or below its update; the seconds of each phase. The sum of the seconds
// is minimised. Constraints: a phase takes at least as long as each resource is busy in it. It also takes at least as
// long as the transfers at its ends plus the computation that cannot overlap with them. Fractions sum to one, and each
// tier's bytes stay within its budget.
//
// A class is all units whose elements cost the same at the same ends. Costs are linear in elements, so all units of a
// class have the same best fractions, whatever their sizes. 10,000 units make a programme as small as 10 do. Values
// only; Local.
#pragma once

#include <optional>
#include <vector>

#include "zero/plan/model/step_costs.h"
#include "zero/plan/placement/best_placement.h"
#include "zero/plan/placement/linear_programme.h"

namespace zero {

struct UnitClass {
  std::vector<std::size_t> units;  // indices into model.units
  bool trainable = true;
  ElementBytes bytes;
  StepCosts costs{};
  std::vector<bool> ends;  // for each end of a phase: whether it counts these units' transfers
  // Elements of one state that this rank may move, over all units of the class.
  double numel = 0;
};

// Bytes on the device if everything is there, and the part of them that can leave it.
struct MovableBytes {
  std::int64_t total = 0;
  std::int64_t movable = 0;
};

class PlacementProgramme {
 public:
  explicit PlacementProgramme(const StepModel& model);

  struct Solution {
    std::vector<StateFractions> fractions;  // fractions of each class
    double seconds = 0;                     // seconds of the step: a lower bound for all placements within the budgets
  };
  // Returns, among all shortest steps, one with the fewest bytes off the device; bytes on disk count twice. Nothing if
  // the budgets cannot hold the states.
  std::optional<Solution> solve(const TierBudgets& budgets) const;

  const std::vector<UnitClass>& classes() const { return classes_; }
  const MovableBytes& bytes() const { return bytes_; }
  // Returns whether a state of a class may leave the device.
  bool can_move(const UnitClass& units, TierSplit UnitTiers::*state) const;

  // Builds the programme. The unit of its cost depends on the model's costs (time_scale_).
  LinearProgramme programme(const TierBudgets& budgets) const;

 private:
  void add_phase_rows(LinearProgramme& programme) const;
  void add_end_rows(LinearProgramme& programme) const;
  bool update_goes_on() const;  // whether the update continues into the forward pass
  void add_class_rows(LinearProgramme& programme, bool all_leaves) const;
  void add_budget_rows(LinearProgramme& programme, const TierBudgets& budgets) const;
  double busy_on_device(std::size_t phase, std::size_t resource) const;

  Placement placement_;
  StepProfile profile_;
  std::vector<PhaseEnd> ends_;
  std::vector<UnitClass> classes_;
  MovableBytes bytes_;
  double time_scale_ = 1;  // seconds for which the programme's cost is 1
};

}  // namespace zero
