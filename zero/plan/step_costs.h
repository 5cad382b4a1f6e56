// StepCosts: the seconds for which a step keeps each resource busy for one element of a unit, by the tiers of the
// element's states.
//
// Transfers are counted in amounts, each a number of elements; seconds are linear in them. predict() multiplies them
// out for a given placement, best_placement() makes them the variables of its programme: one table serves both.
//
//   StepCosts costs = costs_of(model, unit);             // [amount][phase][resource]: seconds an element
//   Amounts amounts = amounts_of(model, unit, tiers);    // [amount]: elements, on this rank
//
// Values only; Local.
#pragma once

#include <array>

#include "zero/plan/step_model.h"

namespace zero {

enum class Amount : std::uint8_t {
  // Elements of the state that lie there.
  kParameterHost,
  kParameterDisk,
  kGradientHost,
  kGradientDisk,
  kOptimizerHost,
  kOptimizerDisk,
  // The update of an element runs where its moments lie: on the device, or on the host for host and disk. Gradient and
  // parameter may lie above that (on the device, and the update on the host) or below (off it, and the update on it).
  kGradientAbove,
  kGradientBelow,
  kParameterAbove,
  kParameterBelow,
  // All elements that this rank updates, wherever they lie.
  kUpdated
};
constexpr int kNumAmounts = 11;
constexpr std::size_t index_of(Amount amount) {
  return static_cast<std::size_t>(amount);
}

using Amounts = std::array<double, kNumAmounts>;
using StepCosts = std::array<BusySeconds, kNumAmounts>;

// Bytes that one element takes of each state, where it lies. A frozen unit has a parameter alone; `gradient`: two where
// the update is delayed; `optimizer`: moments (of those in 8 bits the codes: scales never move), and the master.
struct ElementBytes {
  std::int64_t parameter = 0;
  std::int64_t gradient = 0;
  std::int64_t optimizer = 0;
  bool operator==(const ElementBytes&) const = default;
};
ElementBytes element_bytes(const StepModel& model, const Unit& unit);

StepCosts costs_of(const StepModel& model, const Unit& unit);

// An end of a phase's computation, and the units whose transfers lie there: parameters that must come before a forward
// pass goes on, gradients that leave after a backward pass is nearly over, and of an update that goes on into the
// forward pass what must be done before that goes on. With many units some ends stand for all. Under the min budget
// a backward pass has an end of its own for what it fetches: all of that is apart from its computation. (A forward pass
// has one where a link stands. Without one most parameters come with their update; frozen ones, and those of later
// micro-batches, are fetched and not counted so.)
struct PhaseEnd {
  StepPhase phase = StepPhase::kForward;
  Resource resource = Resource::kDisk;
  double apart = 0;         // see EndTransfers
  std::vector<bool> units;  // by unit
  bool fetches = false;     // of a backward pass: what comes for its gathers, rather than the gradients that leave
};
std::vector<PhaseEnd> phase_ends(const StepModel& model);
// Seconds an element that count at the end.
double cost_at_end(const StepCosts& costs, Amount amount, const PhaseEnd& end);
double seconds_at_end(const StepCosts& costs, const Amounts& amounts, const PhaseEnd& end);

Amounts amounts_of(const StepModel& model, const Unit& unit, const UnitTiers& tiers);

}  // namespace zero
