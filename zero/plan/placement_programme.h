// PlacementProgramme: the search for the best placement as a linear programme.
//
// Variables: for each class of units and each state the fractions on host and on disk (the rest is on the device); the
// fractions whose gradient or parameter lies above or below their update; and the seconds of each phase. Minimised:
// the seconds of all phases. Constraints: a phase takes at least as long as each resource is busy in it, and at least
// as long as the transfers at its ends with the computation that cannot overlap with them; fractions sum to one, and
// the bytes on each tier stay within its budget.
//
//   PlacementProgramme programme(model);
//   programme.solve(budgets)->seconds
//
// A class is all units whose elements cost the same, at the same ends. Costs are linear in elements, so all units of a
// class have the same best fractions, whatever their sizes: 10,000 units make a programme as small as 10 do. Values
// only; Local.
#pragma once

#include <optional>
#include <vector>

#include "zero/plan/best_placement.h"
#include "zero/plan/linear_programme.h"
#include "zero/plan/step_costs.h"

namespace zero {

struct UnitClass {
  std::vector<std::size_t> units;  // positions in model.units
  bool trainable = true;
  ElementBytes bytes;
  StepCosts costs{};
  std::vector<bool> ends;  // by end of a phase: whether these units' transfers lie there
  // Elements of one state that this rank may move, over all units.
  double numel = 0;
};

// Bytes on the device, if everything lies there, and how many of them can leave it.
struct MovableBytes {
  std::int64_t total = 0;
  std::int64_t movable = 0;
};

class PlacementProgramme {
 public:
  explicit PlacementProgramme(const StepModel& model);

  struct Solution {
    std::vector<StateFractions> fractions;  // by class
    double seconds = 0;                     // of the step: no placement within the budgets takes less
  };
  // Of all shortest steps one with the fewest bytes off the device, where those on disk count twice. Nothing where the
  // budgets cannot hold the states.
  std::optional<Solution> solve(const TierBudgets& budgets) const;

  const std::vector<UnitClass>& classes() const { return classes_; }
  const MovableBytes& bytes() const { return bytes_; }
  // Which states of a class may leave the device.
  bool can_move(const UnitClass& units, TierSplit UnitTiers::*state) const;

  // The programme itself; its cost is in a unit of time that goes with the model's costs.
  LinearProgramme programme(const TierBudgets& budgets) const;

 private:
  void add_phase_rows(LinearProgramme& programme) const;
  void add_end_rows(LinearProgramme& programme) const;
  bool update_goes_on() const;  // into the forward pass
  void add_class_rows(LinearProgramme& programme, bool all_leaves) const;
  void add_budget_rows(LinearProgramme& programme, const TierBudgets& budgets) const;
  double busy_on_device(std::size_t phase, std::size_t resource) const;

  Placement placement_;
  StepProfile profile_;
  std::vector<PhaseEnd> ends_;
  std::vector<UnitClass> classes_;
  MovableBytes bytes_;
  double time_scale_ = 1;  // seconds that the programme's cost counts as 1
};

}  // namespace zero
