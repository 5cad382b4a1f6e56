#include "zero/engine/factor_states.h"

#include <algorithm>

#include "zero/base/check.h"
#include "zero/memory/host_memory.h"
#include "zero/plan/factored.h"

namespace zero {

FactorStates::FactorStates(const std::vector<Unit>& units, Ledger& ledger) {
  std::int64_t bytes = 0;
  for (const Unit& unit : units) bytes += factor_bytes(unit);
  if (bytes == 0) return;
  memory_ = Buffer(allocate_host(static_cast<std::size_t>(bytes)), ledger, Tier::kDevice, MemoryTag::kMoment);
  std::span<float> free = memory_.as<float>();
  for (const Unit& unit : units) {
    if (!unit.factored) continue;
    for (const Slice& slice : unit.slices) {
      const auto add = [&](std::string_view name, std::int64_t numel) {
        states_.push_back(
            {unit.index, static_cast<std::size_t>(slice.param), name, free.first(static_cast<std::size_t>(numel))});
        free = free.subspan(static_cast<std::size_t>(numel));
      };
      add(kRowVar, slice.rows);
      add(kColVar, slice.columns());
    }
  }
}

std::span<float> FactorStates::find(std::size_t param, std::string_view name) const {
  const auto found =
      std::ranges::find_if(states_, [&](const State& state) { return state.param == param && state.name == name; });
  ZERO_CHECK(found != states_.end(), "parameter {} has no {}", param, name);
  return found->values;
}

}  // namespace zero
