#include "zero/engine/gather/secondary_parts.h"

#include "zero/base/error/check.h"
#include "zero/plan/units/secondary.h"

namespace zero {

SecondaryParts::SecondaryParts(const ShardedState& state, Communicator* group, Ledger& ledger)
    : state_(&state), group_(group) {
  if (group == nullptr) return;
  std::size_t bytes = 0;
  for (const Unit& unit : state.units()) {
    places_.push_back(bytes);
    sizes_.push_back(static_cast<std::size_t>(secondary_part_bytes(unit, state.world(), group->world())));
    bytes += sizes_.back();
  }
  current_.assign(state.units().size(), false);
  window_ = Buffer(group->allocate(bytes), ledger, Tier::kDevice, MemoryTag::kSecondary);
}

std::span<std::byte> SecondaryParts::part(int unit) const {
  const auto index = static_cast<std::size_t>(unit);
  return {window_.data() + places_[index], sizes_[index]};
}

bool SecondaryParts::keep(int unit, const std::byte* whole) {
  if (aside_ || current_.empty()) return false;
  group_->drain();
  const std::span<std::byte> own = part(unit);
  const Unit& of = state_->unit(unit);
  const Shard kept = secondary_part(of, group_->rank(), state_->world(), group_->world());
  const std::byte* const from = whole + static_cast<std::size_t>(kept.offset) * size_of(of.dtype);
  follow(state_->device(), Lane::kGather, Lane::kUp);
  state_->device().copy(Lane::kGather, own, {from, own.size()});
  current_[static_cast<std::size_t>(unit)] = true;
  return true;
}

void SecondaryParts::outdate() {
  current_.assign(current_.size(), false);
}

void SecondaryParts::outdate(int unit) {
  if (!current_.empty()) current_[static_cast<std::size_t>(unit)] = false;
}

Work SecondaryParts::gather(int unit, std::span<std::byte> whole) {
  ZERO_CHECK(current(unit), "no part of unit {} is current", state_->unit(unit).name);
  follow(state_->device(), Lane::kDown, Lane::kGather);
  return group_->all_gather(part(unit), whole, {.unit = unit});
}

}  // namespace zero
