#include "zero/serve/weight_versions.h"

#include <algorithm>
#include <cstring>

#include "zero/base/check.h"

namespace zero {

WeightVersions::WeightVersions(Engine& engine, int count, Communicator& servers)
    : engine_(engine), servers_(servers.world()), versions_(static_cast<std::size_t>(count)) {
  for (const Unit& unit : engine.units()) {
    offsets_.push_back(static_cast<std::size_t>(bytes_));
    if (unit.trainable) bytes_ += static_cast<std::int64_t>(shard_bytes(unit));
  }
  for (Version& version : versions_) {
    version.memory = servers.allocate(static_cast<std::size_t>(bytes_));
    version.charge = Charge(engine.resources().ledger, Tier::kDevice, MemoryTag::kStaging, bytes_);
  }
}

std::size_t WeightVersions::shard_bytes(const Unit& unit) const {
  return static_cast<std::size_t>(shard_numel(unit, servers_)) * size_of(unit.dtype);
}

const WeightVersions::Version* WeightVersions::find(std::int64_t version) const {
  const auto found = std::ranges::find(versions_, version, &Version::number);
  return found == versions_.end() ? nullptr : &*found;
}

WeightVersions::Version& WeightVersions::oldest() {
  return *std::ranges::min_element(versions_, {}, &Version::number);
}

void WeightVersions::keep(std::int64_t number) {
  Version& version = oldest();
  for (const Unit& unit : engine_.units())
    if (unit.trainable)
      engine_.served().read_parameter_shard(unit.index,
                                            version.memory.data() + offsets_[static_cast<std::size_t>(unit.index)]);
  version.number = number;
}

void WeightVersions::restore(std::int64_t number, std::span<const std::byte> bytes) {
  ZERO_CHECK(std::ssize(bytes) == bytes_, "a version of {} bytes, not {}", bytes.size(), bytes_);
  Version& version = oldest();
  std::memcpy(version.memory.data(), bytes.data(), bytes.size());
  version.number = number;
}

std::vector<std::int64_t> WeightVersions::numbers() const {
  std::vector<std::int64_t> numbers;
  for (const Version& version : versions_)
    if (version.number >= 0) numbers.push_back(version.number);
  std::ranges::sort(numbers);
  return numbers;
}

std::span<const std::byte> WeightVersions::kept(std::int64_t version) const {
  const Version* const found = find(version);
  ZERO_CHECK(found != nullptr, "version {} of the weights is not kept", version);
  return {found->memory.data(), static_cast<std::size_t>(bytes_)};
}

std::span<const std::byte> WeightVersions::part(std::span<const std::byte> kept, int unit) const {
  const auto index = static_cast<std::size_t>(unit);
  return kept.subspan(offsets_[index], shard_bytes(engine_.units()[index]));
}

}  // namespace zero
