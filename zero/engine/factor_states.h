// FactorStates: the states of rows and columns of factored units (Unit::factored). Every rank holds them whole, on the
// device, whatever the stage: they are a column's share of a matrix, and every element of it needs one of each.
//
//   FactorStates states(units, states_of_factors(rule.states()), ledger);    // zeros; moments in the ledger
//   states.of(param, StatePer::kRow)                                         // one float for each row of the parameter
//   for (const FactorStates::State& state : states.all()) save(state.param, state.name, state.values);
//
// Local.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "zero/base/state_spec.h"
#include "zero/memory/buffer.h"
#include "zero/plan/unit.h"

namespace zero {

class FactorStates {
 public:
  // `declared`: the rule's states of rows and columns; one of each, where a unit is factored.
  FactorStates(const std::vector<Unit>& units, const std::vector<StateSpec>& declared, Ledger& ledger);

  // One of a parameter.
  struct State {
    int unit = 0;
    std::size_t param = 0;
    std::string name;  // as the rule declares it
    StatePer per = StatePer::kRow;
    std::span<float> values;
  };
  // Row and column states of each matrix, unit by unit; empty where no unit is factored.
  const std::vector<State>& all() const { return states_; }
  // Of a matrix of a factored unit, a value for each row, or for each column.
  std::span<float> of(std::size_t param, StatePer per) const;

 private:
  Buffer memory_;
  std::vector<State> states_;
};

}  // namespace zero
