#include "zero/engine/states/factor_states.h"

#include <algorithm>
#include <array>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/plan/units/factored.h"

namespace zero {

FactorStates::FactorStates(const std::vector<Unit>& units, const std::vector<StateSpec>& declared, Device& device,
                           Ledger& ledger)
    : device_(&device) {
  const OptimizerSpec spec{.states = {}, .factors = declared};
  std::int64_t bytes = 0;
  for (const Unit& unit : units) bytes += factor_bytes(unit, spec);
  if (bytes == 0) return;
  for (const StatePer per : {StatePer::kRow, StatePer::kColumn})
    ZERO_CHECK(std::ranges::count(declared, per, &StateSpec::per) == 1, "{} states of rows and columns",
               declared.size());
  memory_ = Buffer(device.allocate(static_cast<std::size_t>(bytes)), ledger, Tier::kDevice, MemoryTag::kMoment);
  std::span<float> free = memory_.as<float>();
  if (!device.host_readable()) {
    copy_ = Buffer(device.allocate_pinned(memory_.size()), ledger, Tier::kHost, MemoryTag::kStaging);
    free = copy_.as<float>();
  }
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
  if (!copy_) return;
  const std::size_t mean_bytes = states_.size() / 2 * sizeof(float);
  means_ = Buffer(device.allocate(mean_bytes), ledger, Tier::kDevice, MemoryTag::kStaging);
  means_copy_ = Buffer(device.allocate_pinned(mean_bytes), ledger, Tier::kHost, MemoryTag::kStaging);
}

const FactorStates::State& FactorStates::state_of(std::size_t param, StatePer per) const {
  const auto found =
      std::ranges::find_if(states_, [&](const State& state) { return state.param == param && state.per == per; });
  ZERO_CHECK(found != states_.end(), "parameter {} has no state of its {}", param,
             per == StatePer::kRow ? "rows" : "columns");
  return *found;
}

std::size_t FactorStates::mean_place(std::size_t param) const {
  return static_cast<std::size_t>(&state_of(param, StatePer::kRow) - states_.data()) / 2;
}

std::span<float> FactorStates::of(std::size_t param, StatePer per) const {
  const std::span<float> values = state_of(param, per).values;
  if (!copy_) return values;
  return memory_.as<float>().subspan(static_cast<std::size_t>(values.data() - copy_.as<float>().data()), values.size());
}

const std::vector<FactorStates::State>& FactorStates::all() const {
  if (!may_be_written_) bring_down();
  may_be_written_ = true;
  return states_;
}

void FactorStates::take_up() {
  if (!copy_ || !std::exchange(may_be_written_, false)) return;
  device_->copy(Lane::kUp, memory_.bytes(), copy_.bytes());  // the host has waited for the last use of both
}

void FactorStates::bring_down() const {
  if (!copy_) return;
  follow(*device_, Lane::kDown, Lane::kUpdate);
  device_->copy(Lane::kDown, copy_.bytes(), memory_.bytes());
  device_->copy(Lane::kDown, means_copy_.bytes(), means_.bytes());
  device_->join(device_->mark(Lane::kDown));
  const std::array brought{changes(copy_.bytes()), reads(means_copy_.bytes())};
  device_->host_touches(brought, "the host takes states of rows and columns");
}

}  // namespace zero
