// StepCosts: seconds for which a step uses each resource for one element of a unit, by the tiers of its states.
//
//   StepCosts costs = costs_of(model, unit);             // [amount][phase][resource]: seconds an element
//   Amounts amounts = amounts_of(model, unit, tiers);    // [amount]: elements, on this rank
//
// Each Amount is a number of elements, and seconds are linear in it. predict() multiplies costs by the amounts of a
// given placement. best_placement() makes the amounts the variables of its programme. So one table serves both. Values
// only; Local.
#pragma once

#include <array>

#include "zero/plan/model/step_model.h"

namespace zero {

enum class Amount : std::uint8_t {
  // Elements of the state on each lower tier, from the fastest: see on().
  kParameter = 0,
  kGradient = kParameter + kNumLowerTiers,
  kOptimizer = kGradient + kNumLowerTiers,
  // In this model an element's update runs where its moments are: on the device, or on the host for all lower tiers. A
  // gradient or parameter is above its update if it is on the device, and the update on the host. It is below its
  // update if it is off the device, and the update on it. An engine's update also runs on the host if only its gradient
  // or parameter is there.
  kGradientAbove = kOptimizer + kNumLowerTiers,
  kGradientBelow,
  kParameterAbove,
  kParameterBelow,
  // All elements that this rank updates, on any tier.
  kUpdated
};
constexpr int kNumAmounts = static_cast<int>(Amount::kUpdated) + 1;
constexpr std::size_t index_of(Amount amount) {
  return static_cast<std::size_t>(amount);
}
// Returns the amount of a state on a lower tier: on(Amount::kGradient, Tier::kDisk).
constexpr Amount on(Amount state, Tier tier) {
  return static_cast<Amount>(index_of(state) + index_of(tier) - 1);
}

using Amounts = std::array<double, kNumAmounts>;
using StepCosts = std::array<BusySeconds, kNumAmounts>;

// Bytes of one element of each state, on its tier. A frozen unit has only a parameter. `gradient`: two gradients if the
// update is delayed. `optimizer`: moments and the master (of 8-bit states only the codes, because scales never move).
struct ElementBytes {
  std::int64_t parameter = 0;
  std::int64_t gradient = 0;
  std::int64_t optimizer = 0;
  bool operator==(const ElementBytes&) const = default;
};
ElementBytes element_bytes(const StepModel& model, const Unit& unit);

StepCosts costs_of(const StepModel& model, const Unit& unit);

// The end of a phase's computation, and the units whose transfers it waits for. Forward: parameters that must arrive
// before the pass can continue. Backward: gradients that leave after the pass is nearly over. Update beside the forward
// pass: updates that must end before the pass can continue. With many units, a few ends represent all. Under the min
// budget a backward pass has another end for its fetches, which overlap with no computation. (So does a forward pass
// with a link. Without a link most parameters arrive with their update. Frozen ones, and those of later micro-batches,
// are fetched, but this end does not count them.)
struct PhaseEnd {
  StepPhase phase = StepPhase::kForward;
  Resource resource = Resource::kRequests;
  double apart = 0;         // see EndTransfers
  std::vector<bool> units;  // the units at this end
  bool fetches = false;     // backward pass: counts the fetches for its gathers, instead of the gradients that leave
};
std::vector<PhaseEnd> phase_ends(const StepModel& model);
// Returns the seconds per element that count at the end.
double cost_at_end(const StepCosts& costs, Amount amount, const PhaseEnd& end);
double seconds_at_end(const StepCosts& costs, const Amounts& amounts, const PhaseEnd& end);

Amounts amounts_of(const StepModel& model, const Unit& unit, const UnitTiers& tiers);

}  // namespace zero
