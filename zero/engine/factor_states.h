// FactorStates: the states of rows and columns of factored units (Unit::factored). Every rank holds them whole, on the
// device, whatever the stage: they are a column's share of a matrix, and every element of it needs one of each.
//
//   FactorStates states(units, ledger);                  // zeros; moments in the ledger
//   states.row_var(param)                                // one float for each row of the parameter
//   for (const FactorStates::State& state : states.all()) save(state.param, state.name, state.values);
//
// Local.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "zero/memory/buffer.h"
#include "zero/plan/unit.h"

namespace zero {

class FactorStates {
 public:
  FactorStates(const std::vector<Unit>& units, Ledger& ledger);

  // As torch.optim.Adafactor calls them.
  static constexpr std::string_view kRowVar = "row_var", kColVar = "col_var";
  // One of a parameter.
  struct State {
    int unit = 0;
    std::size_t param = 0;
    std::string_view name;
    std::span<float> values;
  };
  // Row and column states of each matrix, unit by unit; empty where no unit is factored.
  const std::vector<State>& all() const { return states_; }
  // Of a matrix of a factored unit.
  std::span<float> row_var(std::size_t param) const { return find(param, kRowVar); }
  std::span<float> col_var(std::size_t param) const { return find(param, kColVar); }

 private:
  std::span<float> find(std::size_t param, std::string_view name) const;

  Buffer memory_;
  std::vector<State> states_;
};

}  // namespace zero
