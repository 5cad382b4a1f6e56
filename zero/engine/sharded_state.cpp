#include "zero/engine/sharded_state.h"

#include <algorithm>
#include <cstring>

#include "zero/base/check.h"
#include "zero/memory/host_memory.h"

namespace zero {
namespace {

// Elements [begin, begin + numel) of `from` (in from_dtype) as to_dtype; what lies beyond `available` stays zero.
void convert(const std::byte* from, DType from_dtype, std::byte* to, DType to_dtype, std::int64_t begin,
             std::int64_t numel, std::int64_t available) {
  const std::int64_t count = std::clamp<std::int64_t>(available - begin, 0, numel);
  if (from_dtype == to_dtype) {
    const std::size_t size = size_of(from_dtype);
    if (count > 0)
      std::memcpy(to, from + begin * static_cast<std::int64_t>(size), static_cast<std::size_t>(count) * size);
  } else if (to_dtype == DType::kFloat32) {
    const auto* source = reinterpret_cast<const BFloat16Bits*>(from) + begin;
    std::transform(source, source + count, reinterpret_cast<float*>(to),
                   [](BFloat16Bits bits) { return to_float(bits); });
  } else {
    const auto* source = reinterpret_cast<const float*>(from) + begin;
    std::transform(source, source + count, reinterpret_cast<BFloat16Bits*>(to),
                   [](float value) { return to_bfloat16(value); });
  }
}

}  // namespace

std::byte* ShardedState::Arena::at(int unit) const {
  if (offsets.empty()) return nullptr;
  const std::int64_t offset = offsets[static_cast<std::size_t>(unit)];
  return offset < 0 ? nullptr : buffer.data() + offset;
}

template <typename SizeOfElement, typename Allocate>
ShardedState::Arena ShardedState::make_arena(Holds holds, MemoryTag tag, Ledger& ledger, SizeOfElement size_of_element,
                                             Allocate allocate) const {
  Arena arena;
  std::int64_t bytes = 0;
  for (const Unit& unit : units_) {
    const auto size = static_cast<std::int64_t>(size_of_element(unit));
    arena.offsets.push_back(size == 0 ? -1 : bytes);
    bytes += (holds == Holds::kWhole ? padded_numel(unit, world_) : shard_of(unit, rank_, world_).numel) * size;
  }
  arena.buffer = Buffer(allocate(static_cast<std::size_t>(bytes)), ledger, Tier::kDevice, tag);
  return arena;
}

ShardedState::ShardedState(const std::vector<Unit>& units, const Placement& placement, int num_moments,
                           Communicator& comm, Ledger& ledger)
    : units_(units), placement_(placement), rank_(comm.rank()), world_(comm.world()) {
  const auto window = [&comm](std::size_t bytes) { return comm.allocate(bytes); };
  const auto holds = [](bool sharded) { return sharded ? Holds::kShard : Holds::kWhole; };
  const auto fp32 = [](const Unit& unit) { return unit.trainable ? 4 : 0; };
  parameter_ = make_arena(
      holds(placement.parameter_sharded), MemoryTag::kParameter, ledger,
      [](const Unit& unit) { return size_of(unit.dtype); }, window);
  const auto gradient_size = [this](const Unit& unit) {
    return unit.trainable ? size_of(gradient_dtype(unit.index)) : 0;
  };
  if (placement.gradient_sharded) {
    gradient_ = make_arena(Holds::kShard, MemoryTag::kGradient, ledger, gradient_size, allocate_host);
  } else {
    gradient_ = make_arena(Holds::kWhole, MemoryTag::kGradient, ledger, gradient_size, window);
  }
  const auto master_size = [](const Unit& unit) { return unit.trainable && unit.dtype != DType::kFloat32 ? 4 : 0; };
  master_ = make_arena(holds(placement.optimizer_sharded), MemoryTag::kMaster, ledger, master_size, allocate_host);
  for (int which = 0; which < num_moments; ++which) {
    moments_.push_back(make_arena(holds(placement.optimizer_sharded), MemoryTag::kMoment, ledger, fp32, allocate_host));
  }
}

Shard ShardedState::update_range(int unit) const {
  if (placement_.optimizer_sharded) return shard(unit);
  return {0, padded_numel(this->unit(unit), world_)};
}

std::byte* ShardedState::whole_parameter(int unit) const {
  return placement_.parameter_sharded ? nullptr : parameter_.at(unit);
}

std::span<std::byte> ShardedState::parameter_shard(int unit) const {
  const Shard own = shard(unit);
  const auto size = static_cast<std::int64_t>(size_of(this->unit(unit).dtype));
  std::byte* begin = parameter_.at(unit) + (placement_.parameter_sharded ? 0 : own.offset * size);
  return {begin, static_cast<std::size_t>(own.numel * size)};
}

std::byte* ShardedState::updated_parameter(int unit) const {
  return placement_.optimizer_sharded ? parameter_shard(unit).data() : parameter_.at(unit);
}

float* ShardedState::master(int unit) const {
  return reinterpret_cast<float*>(master_.at(unit));
}

float* ShardedState::moment(int unit, int which) const {
  return which < static_cast<int>(moments_.size())
             ? reinterpret_cast<float*>(moments_[static_cast<std::size_t>(which)].at(unit))
             : nullptr;
}

DType ShardedState::gradient_dtype(int unit) const {
  return placement_.fp32_gradient() ? DType::kFloat32 : this->unit(unit).dtype;
}

std::byte* ShardedState::whole_gradient(int unit) const {
  return placement_.gradient_sharded ? nullptr : gradient_.at(unit);
}

std::byte* ShardedState::gradient_shard(int unit) const {
  if (placement_.gradient_sharded) return gradient_.at(unit);
  return gradient_.at(unit) + shard(unit).offset * static_cast<std::int64_t>(size_of(gradient_dtype(unit)));
}

void ShardedState::load(int index, const std::byte* whole, DType dtype) {
  const Unit& unit = this->unit(index);
  const Shard held = placement_.parameter_sharded ? shard(index) : Shard{0, padded_numel(unit, world_)};
  convert(whole, dtype, parameter_.at(index), unit.dtype, held.offset, held.numel, unit.numel);
  if (std::byte* master = master_.at(index)) {
    const Shard updated = update_range(index);
    convert(whole, dtype, master, DType::kFloat32, updated.offset, updated.numel, unit.numel);
  }
}

void ShardedState::store(int index, const std::byte* whole) {
  const Unit& unit = this->unit(index);
  if (whole != parameter_.at(index)) {
    const Shard held = placement_.parameter_sharded ? shard(index) : Shard{0, padded_numel(unit, world_)};
    convert(whole, unit.dtype, parameter_.at(index), unit.dtype, held.offset, held.numel, unit.numel);
  }
  if (float* master = this->master(index)) {
    // Only what was written: an element whose master still rounds to the parameter keeps its full precision.
    const Shard updated = update_range(index);
    const auto* low = reinterpret_cast<const BFloat16Bits*>(whole) + updated.offset;
    const std::int64_t numel = std::clamp<std::int64_t>(unit.numel - updated.offset, 0, updated.numel);
    for (std::int64_t i = 0; i < numel; ++i) {
      if (to_bfloat16(master[i]) != low[i]) master[i] = to_float(low[i]);
    }
  }
}

void ShardedState::read_full_precision_shard(int index, std::span<float> out) const {
  const Shard own = shard(index);
  ZERO_CHECK(static_cast<std::int64_t>(out.size()) == own.numel, "a shard of {} elements into {}", own.numel,
             out.size());
  if (const float* master = this->master(index)) {
    std::copy_n(master + (own.offset - update_range(index).offset), own.numel, out.data());
  } else {
    convert(parameter_shard(index).data(), unit(index).dtype, reinterpret_cast<std::byte*>(out.data()), DType::kFloat32,
            0, own.numel, own.numel);
  }
}

}  // namespace zero
