// FactorStates: the states of rows and columns of factored units (Unit::factored). Every rank holds them whole, on the
// device, whatever the stage: they are a column's share of a matrix, and every element of it needs one of each.
//
//   FactorStates states(units, states_of_factors(rule.states()), device, ledger);    // zeros; moments in the ledger
//   states.of(param, StatePer::kRow)                                  // one float for each row of the parameter
//   for (const FactorStates::State& state : states.all()) save(state.param, state.name, state.values);
//
// On a device that the host cannot read, kernels in kUpdate change them where of() says, once take_up() has come before; with
// each matrix lies the mean of its row states there, which the rule writes. The host has a copy in pinned memory, for which
// bring_down() waits.
//
// Local.
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
  // `declared`: the rule's states of rows and columns; one of each, where a unit is factored.
  FactorStates(const std::vector<Unit>& units, const std::vector<StateSpec>& declared, Device& device, Ledger& ledger);

  // One of a parameter.
  struct State {
    int unit = 0;
    std::size_t param = 0;
    std::string name;  // as the rule declares it
    StatePer per = StatePer::kRow;
    std::span<float> values;  // for the host
  };
  bool empty() const { return states_.empty(); }
  // Row and column states of each matrix, unit by unit, as they are now. The host may write them, until the next take_up().
  const std::vector<State>& all() const;
  // Of a matrix of a factored unit, a value for each row, or for each column: where updates change them.
  std::span<float> of(std::size_t param, StatePer per) const;

  // The rest is of a device that the host cannot read; on others these do nothing.
  // What the host may have written is on the device behind kUp.
  void take_up();
  // The host's copy, and that of the means, are as kUpdate leaves them: the host waits.
  void bring_down() const;
  // What bring_down() brought.
  std::span<const float> brought(std::size_t param, StatePer per) const { return state_of(param, per).values; }
  float brought_mean(std::size_t param) const { return means_copy_.as<float>()[mean_place(param)]; }
  float* mean_there(std::size_t param) const { return means_.as<float>().data() + mean_place(param); }

 private:
  const State& state_of(std::size_t param, StatePer per) const;
  std::size_t mean_place(std::size_t param) const;

  Device* device_;
  Buffer memory_, copy_;                 // `copy_`: the host's; empty where it can read the device
  Buffer means_, means_copy_;            // one for each matrix; empty as `copy_` is
  std::vector<State> states_;            // each matrix has two in a row
  mutable bool may_be_written_ = false;  // by the host, since take_up(): its copy is the newest
};

}  // namespace zero
