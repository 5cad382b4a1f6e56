#include "zero/engine/reduce/leaf_sums.h"

#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/plan/units/partition.h"

namespace zero {

LeafSums::LeafSums(const ShardedState& state, std::optional<Leaves> leaves, int rank, Ledger& ledger)
    : state_(state), leaves_(std::move(leaves)), rank_(rank), sums_(state.units().size()) {
  const int count = state.placement().num_partial_sums();
  for (const Unit& unit : state.units()) {
    if (!unit.trainable) continue;
    const std::size_t bytes = static_cast<std::size_t>(numel(unit.index)) * sizeof(float);
    for (int sum = 0; sum < count; ++sum)
      sums_[static_cast<std::size_t>(unit.index)].emplace_back(state.device().allocate(bytes), ledger, Tier::kDevice,
                                                               MemoryTag::kGradient);
  }
}

std::span<const std::uint8_t> LeafSums::merges() const {
  return leaves_ ? std::span<const std::uint8_t>(leaves_->merges()) : std::span<const std::uint8_t>();
}

std::int64_t LeafSums::numel(int unit) const {
  return state_.placement().sums_leaves_here() ? padded_numel(state_.unit(unit), state_.world())
                                               : state_.shard(unit).numel;
}

float* LeafSums::at(int unit, int position) const {
  return sums_[static_cast<std::size_t>(unit)][static_cast<std::size_t>(position - 1)].as<float>().data();
}

void LeafSums::require_leaf(int unit, int pass, bool again) const {
  if (!on()) return;
  const std::string& name = state_.unit(unit).name;
  if (again)
    throw ConfigError("train.leaves", fmt::format("{}", leaves_->count()),
                      fmt::format("one backward pass gave {} a second gradient after it was summed", name),
                      "leave train.leaves out, or do not share these parameters between activation checkpoints");
  if (pass >= leaves_->passes())
    throw ConfigError("train.leaves", fmt::format("{}", leaves_->count()),
                      fmt::format("a step has {} micro-batches on this rank, and {} got the gradient of another",
                                  leaves_->passes(), name),
                      "call step() after the last micro-batch");
}

}  // namespace zero
