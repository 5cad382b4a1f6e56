#include "zero/engine/gather/unit_uses.h"

#include <algorithm>

#include "zero/base/error/check.h"

namespace zero {

UnitUses::UnitUses(ShardedState& state, Communicator& comm, const GatherBlocks& blocks, SecondaryParts& parts)
    : state_(state),
      comm_(comm),
      blocks_(blocks),
      parts_(parts),
      pins_(state.units().size(), 0),
      data_(state.units().size(), nullptr),
      written_(state.units().size(), false),
      last_access_(state.units().size(), 0) {}

void UnitUses::pin(int unit, std::byte* data) {
  const auto index = static_cast<std::size_t>(unit);
  ++pins_[index];
  data_[index] = data;
}

void UnitUses::unpin(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  ZERO_CHECK(pins_[index] > 0, "unit {} is not pinned", unit);
  if (--pins_[index] > 0 || !written_[index]) return;
  written_[index] = false;
  comm_.drain();  // a late peer may still read the memory that is about to change
  state_.contents().store(unit, data_[index]);
  parts_.outdate(unit);
}

void UnitUses::mark_written(int unit) {
  written_[static_cast<std::size_t>(unit)] = true;
  before_writing();
}

void UnitUses::before_writing() {
  if (!state_.placement().parameter_sharded || blocks_.read_by_peers()) comm_.drain();
}

void UnitUses::note_access(int unit) {
  last_access_[static_cast<std::size_t>(unit)] = ++num_accesses_;
}

std::vector<int> UnitUses::pinned() const {
  std::vector<int> units;
  for (std::size_t unit = 0; unit < pins_.size(); ++unit) {
    if (pins_[unit] > 0) units.push_back(static_cast<int>(unit));
  }
  return units;
}

std::vector<int> UnitUses::idle_of(std::vector<int> units) const {
  std::erase_if(units, [this](int unit) { return is_pinned(unit); });
  std::ranges::sort(units, {}, [this](int unit) { return last_access_[static_cast<std::size_t>(unit)]; });
  return units;
}

}  // namespace zero
