#include "zero/engine/factor_states.h"

#include <algorithm>

#include "zero/base/check.h"
#include "zero/memory/host_memory.h"
#include "zero/plan/factored.h"

namespace zero {

FactorStates::FactorStates(const std::vector<Unit>& units, const std::vector<StateSpec>& declared, Ledger& ledger) {
  const OptimizerSpec spec{.states = {}, .factors = declared};
  std::int64_t bytes = 0;
  for (const Unit& unit : units) bytes += factor_bytes(unit, spec);
  if (bytes == 0) return;
  for (const StatePer per : {StatePer::kRow, StatePer::kColumn})
    ZERO_CHECK(std::ranges::count(declared, per, &StateSpec::per) == 1, "{} states of rows and columns",
               declared.size());
  memory_ = Buffer(allocate_host(static_cast<std::size_t>(bytes)), ledger, Tier::kDevice, MemoryTag::kMoment);
  std::span<float> free = memory_.as<float>();
  for (const Unit& unit : units) {
    if (!unit.factored) continue;
    for (const Slice& slice : unit.slices) {
      for (const StateSpec& state : declared) {
        const auto numel = static_cast<std::size_t>(state.numel(slice.rows, slice.columns()));
        states_.push_back(
            {unit.index, static_cast<std::size_t>(slice.param), state.name, state.per, free.first(numel)});
        free = free.subspan(numel);
      }
    }
  }
}

std::span<float> FactorStates::of(std::size_t param, StatePer per) const {
  const auto found =
      std::ranges::find_if(states_, [&](const State& state) { return state.param == param && state.per == per; });
  ZERO_CHECK(found != states_.end(), "parameter {} has no state of its {}", param,
             per == StatePer::kRow ? "rows" : "columns");
  return found->values;
}

}  // namespace zero
