#include "zero/serve/weight_versions.h"

#include <cstring>

#include "zero/base/error/check.h"

namespace zero {

WeightVersions::WeightVersions(RankEngine& engine, const SyncPlan& plan, int workers, Communicator& servers)
    : engine_(engine),
      servers_(servers),
      num_versions_(plan.num_versions()),
      places_(plan, workers),
      memory_(static_cast<std::size_t>(places_.size())) {
  for (const Unit& unit : engine.units()) {
    offsets_.push_back(static_cast<std::size_t>(bytes_));
    if (unit.trainable) bytes_ += static_cast<std::int64_t>(shard_bytes(unit));
  }
  for (Place& place : std::span(memory_).first(static_cast<std::size_t>(num_versions_))) allocate(place);
}

void WeightVersions::allocate(Place& place) {
  place.memory = servers_.allocate(static_cast<std::size_t>(bytes_));
  place.charge = Charge(engine_.resources().ledger, Tier::kDevice, MemoryTag::kStaging, bytes_);
}

std::size_t WeightVersions::shard_bytes(const Unit& unit) const {
  return static_cast<std::size_t>(shard_numel(unit, servers_.world())) * size_of(unit.dtype);
}

// VersionPlaces uses new places in ascending order, and the first num_versions() are allocated from the start.
std::byte* WeightVersions::memory_for(std::int64_t version) {
  Place& place = memory_[static_cast<std::size_t>(places_.keep(version))];
  if (!place.memory && bytes_ > 0) allocate(place);
  return place.memory.data();
}

void WeightVersions::keep(std::int64_t version) {
  std::byte* const memory = memory_for(version);
  for (const Unit& unit : engine_.units())
    if (unit.trainable)
      engine_.half_steps().read_parameter_shard(unit.index, memory + offsets_[static_cast<std::size_t>(unit.index)]);
}

void WeightVersions::restore(std::int64_t version, std::span<const std::byte> bytes) {
  ZERO_CHECK(std::ssize(bytes) == bytes_, "a version of {} bytes, not {}", bytes.size(), bytes_);
  std::memcpy(memory_for(version), bytes.data(), bytes.size());
}

std::span<const std::byte> WeightVersions::kept(std::int64_t version) const {
  const int place = places_.place_of(version);
  ZERO_CHECK(place >= 0, "version {} of the weights is not kept", version);
  return {memory_[static_cast<std::size_t>(place)].memory.data(), static_cast<std::size_t>(bytes_)};
}

std::span<const std::byte> WeightVersions::part(std::span<const std::byte> kept, int unit) const {
  const auto index = static_cast<std::size_t>(unit);
  return kept.subspan(offsets_[index], shard_bytes(engine_.units()[index]));
}

}  // namespace zero
