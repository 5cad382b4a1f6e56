// FactorStates: the states of rows and columns of factored units (Unit::factored).
//
//   FactorStates states(units, states_of_factors(rule.states()), device, ledger);    // zeros; moments in the ledger
//   states.of(param, StatePer::kRow)                                  // one float for each row of the parameter
//   for (const FactorStates::State& state : states.all()) save(state.param, state.name, state.values);
//
// Every rank holds them whole, on the device, at every stage. They are as small as a column of a matrix, and the update
// of an element needs the values of its row and column. On a device that the host cannot read, kernels in kUpdate
// change the memory of of(), after a take_up(). Each matrix also has the mean of its row states there, which the rule
// writes. The host has a copy in pinned memory, which bring_down() refreshes. Local.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "zero/base/numbers/state_spec.h"
#include "zero/device/device.h"
#include "zero/memory/account/buffer.h"
#include "zero/plan/units/unit.h"

namespace zero {

class FactorStates {
 public:
  // `declared`: the rule's states of rows and columns; a factored unit has one of each.
  FactorStates(const std::vector<Unit>& units, const std::vector<StateSpec>& declared, Device& device, Ledger& ledger);

  // A row or column state of one parameter.
  struct State {
    int unit = 0;
    std::size_t param = 0;
    std::string name;  // as the rule declares it
    StatePer per = StatePer::kRow;
    std::span<float> values;  // the host's copy
  };
  bool empty() const { return states_.empty(); }
  // Returns the row and column states of each matrix, unit by unit. The host may write them until the next take_up().
  const std::vector<State>& all() const;
  // Returns a value for each row, or for each column, of a matrix of a factored unit, in the memory that updates
  // change.
  std::span<float> of(std::size_t param, StatePer per) const;

  // The functions below are for a device that the host cannot read; on other devices they do nothing. Copies what the
  // host may have written to the device, in kUp.
  void take_up();
  // Waits on the host, and copies the states and means of kUpdate to the host's copy.
  void bring_down() const;
  // Return the values of the last bring_down().
  std::span<const float> brought(std::size_t param, StatePer per) const { return state_of(param, per).values; }
  float brought_mean(std::size_t param) const { return means_copy_.as<float>()[mean_place(param)]; }
  float* mean_there(std::size_t param) const { return means_.as<float>().data() + mean_place(param); }

 private:
  const State& state_of(std::size_t param, StatePer per) const;
  std::size_t mean_place(std::size_t param) const;

  Device* device_;
  Buffer memory_, copy_;                 // `copy_`: the host's; empty if the host can read the device
  Buffer means_, means_copy_;            // one for each matrix; the copy is empty as `copy_` is
  std::vector<State> states_;            // two in a row for each matrix
  mutable bool may_be_written_ = false;  // by the host, since take_up(): the host's copy is the newest
};

}  // namespace zero
