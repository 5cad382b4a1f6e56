#include "zero/engine/sharded_state.h"

#include <algorithm>
#include <cstring>

#include "zero/base/check.h"
#include "zero/engine/state_moves.h"
#include "zero/memory/block_cutter.h"
#include "zero/memory/host_memory.h"

namespace zero {
namespace {

// Elements [begin, begin + numel) of `from` (in from_dtype) as to_dtype; what lies beyond `available` is zero.
void convert(const std::byte* from, DType from_dtype, std::byte* to, DType to_dtype, std::int64_t begin,
             std::int64_t numel, std::int64_t available) {
  const std::int64_t count = std::clamp<std::int64_t>(available - begin, 0, numel);
  const std::size_t to_size = size_of(to_dtype);
  std::memset(to + count * static_cast<std::int64_t>(to_size), 0, static_cast<std::size_t>(numel - count) * to_size);
  if (from_dtype == to_dtype) {
    if (count > 0)
      std::memcpy(to, from + begin * static_cast<std::int64_t>(to_size), static_cast<std::size_t>(count) * to_size);
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

// What requests to the disk read and write, again and again.
Allocation allocate_staging(DiskTier* disk, std::size_t bytes) {
  if (disk == nullptr) return allocate_host(bytes);
  auto memory = std::make_shared<Allocation>(allocate_host(bytes));
  disk->register_memory(memory->bytes());
  return {memory->data(), bytes, [disk, memory](std::byte*, std::size_t) { disk->forget_memory(memory->bytes()); }};
}

}  // namespace

template <typename ElementBytes>
ArrayLayout ShardedState::layout(TierSplit UnitTiers::*state, ElementBytes element_bytes) const {
  ArrayLayout layout;
  for (const Unit& unit : units_) {
    layout.splits.push_back(tiers_of(placement_, unit, world_).*state);
    layout.element_bytes.push_back(static_cast<std::int64_t>(element_bytes(unit)));
  }
  return layout;
}

ShardedState::ShardedState(const std::vector<Unit>& units, const Placement& placement, int num_moments,
                           Communicator& comm, Ledger& ledger, const Surroundings& around)
    : units_(units),
      placement_(placement),
      rank_(comm.rank()),
      world_(comm.world()),
      staging_(BlockCutter([disk = around.disk](std::size_t bytes) { return allocate_staging(disk, bytes); }), ledger,
               MemoryTag::kStaging, Tier::kHost),
      pass_(around.disk, around.link, staging_, around.depth),
      updates_(around.disk, around.link, staging_, around.depth),
      prefetches_(around.disk, around.link, staging_, prefetch_depth(around.depth)),
      offloads_(around.disk, around.link, staging_, prefetch_depth(around.depth)),
      depth_(around.depth),
      disk_(around.disk),
      link_(around.link) {
  const auto tiers = [&](bool sharded) { return Tiers{ledger, around.disk, around.movable && sharded}; };
  // A window for parameters that lie elsewhere, and may come, has memory where they lie alone.
  const bool away = !std::ranges::all_of(
      units_, [this](const Unit& unit) { return tiers_of(placement_, unit, world_).parameter.on_device(); });
  const auto window = [&comm, away](std::size_t bytes) {
    return comm.allocate(bytes, away ? Written::kPart : Written::kWhole);
  };
  const StateArray::Allocator plain = allocate_host;
  parameter_ = StateArray(layout(&UnitTiers::parameter, [](const Unit& unit) { return size_of(unit.dtype); }),
                          MemoryTag::kParameter, tiers(placement.parameter_sharded), window);
  const auto gradient_bytes = [this](const Unit& unit) {
    return unit.trainable ? size_of(gradient_dtype(unit.index)) : 0;
  };
  gradient_ = StateArray(layout(&UnitTiers::gradient, gradient_bytes), MemoryTag::kGradient,
                         tiers(placement.gradient_sharded), placement.gradient_sharded ? plain : window);
  if (placement.delayed_update)
    kept_gradient_ = StateArray(layout(&UnitTiers::gradient, gradient_bytes), MemoryTag::kGradient, tiers(true), plain);
  const auto master_bytes = [](const Unit& unit) { return unit.trainable && unit.dtype != DType::kFloat32 ? 4 : 0; };
  master_ = StateArray(layout(&UnitTiers::optimizer, master_bytes), MemoryTag::kMaster, tiers(true), plain);
  const auto moment_bytes = [](const Unit& unit) { return unit.trainable ? 4 : 0; };
  for (int which = 0; which < num_moments; ++which)
    moments_.emplace_back(layout(&UnitTiers::optimizer, moment_bytes), MemoryTag::kMoment, tiers(true), plain);
  moves_parameters_ = link_ != nullptr || any_parameter_on_disk();
}

double ShardedState::waited_seconds() const {
  return (disk_ != nullptr ? disk_->traffic().waited_seconds : 0) +
         (link_ != nullptr ? link_->traffic().waited_seconds : 0);
}

bool ShardedState::any_parameter_on_disk() const {
  return std::ranges::any_of(units_, [this](const Unit& unit) { return parameter_.split(unit.index).disk > 0; });
}

std::int64_t ShardedState::move_to(const std::vector<UnitTiers>& tiers) {
  cancel_prefetch();
  finish_offloads();
  pass_.finish();
  updates_.finish();
  const auto for_each_array = [&](auto&& body) {
    const auto visit = [&](StateArray& array, TierSplit UnitTiers::*state) {
      if (!array.movable()) return;
      std::vector<TierSplit> splits;
      for (const UnitTiers& unit : tiers) splits.push_back(unit.*state);
      body(array, splits);
    };
    visit(parameter_, &UnitTiers::parameter);
    visit(gradient_, &UnitTiers::gradient);
    visit(kept_gradient_, &UnitTiers::gradient);
    visit(master_, &UnitTiers::optimizer);
    for (StateArray& moments : moments_) visit(moments, &UnitTiers::optimizer);
  };
  std::vector<PlacedPiece> pieces;
  for_each_array([&pieces](StateArray& array, const std::vector<TierSplit>& splits) {
    for (const StatePiece& piece : array.pieces_to(splits)) pieces.push_back({&array, piece});
  });
  staging_.trim(0);  // nothing is on its way now
  const std::int64_t moved = move_pieces(std::move(pieces));
  for_each_array([](StateArray& array, const std::vector<TierSplit>& splits) { array.settle(splits); });
  placement_.tiers = tiers;
  moves_parameters_ = link_ != nullptr || any_parameter_on_disk();
  return moved;
}

template <typename Visit>
void ShardedState::for_each_tile(TileStream& pass, const StateArray& array, TileAccess access, int unit, Visit visit) {
  if (!array.has(unit)) return;
  pass.begin({{&array, access}}, {{unit, array.split(unit).numel()}});
  while (const Tile* tile = pass.next()) visit(*tile);
}

Shard ShardedState::update_range(int unit) const {
  if (placement_.optimizer_sharded) return shard(unit);
  return {0, padded_numel(this->unit(unit), world_)};
}

Shard ShardedState::held_parameter(int unit) const {
  return placement_.parameter_sharded ? shard(unit) : Shard{0, padded_numel(this->unit(unit), world_)};
}

Shard ShardedState::held(int unit, int state) const {
  const Shard updated = update_range(unit), parameter = held_parameter(unit);
  return state > 0 || updated.numel > parameter.numel ? updated : parameter;
}

std::byte* ShardedState::whole_parameter(int unit) const {
  return placement_.parameter_sharded ? nullptr : parameter_.on_device(unit);
}

std::span<std::byte> ShardedState::parameter_shard(int unit) const {
  std::byte* held = parameter_.on_device(unit);
  if (held == nullptr) return {};
  const Shard own = shard(unit);
  const auto size = static_cast<std::int64_t>(size_of(this->unit(unit).dtype));
  return {held + (own.offset - held_parameter(unit).offset) * size, static_cast<std::size_t>(own.numel * size)};
}

bool ShardedState::begin_prefetch(int unit) {
  if (depth_ == 1 || parameter_.on_device(unit) != nullptr) return true;
  if (fetches(unit)) return false;
  const TileRange range{unit, parameter_.split(unit).numel()};
  if (prefetching_.empty()) {
    prefetches_.begin({{&parameter_, TileAccess::kBring}}, {range});
  } else {
    prefetches_.add(range);
  }
  prefetching_.push_back(unit);
  return true;
}

void ShardedState::cancel_prefetch() {
  prefetches_.finish();
  prefetching_.clear();
}

void ShardedState::fetch_parameter(int unit, std::byte* into, std::int64_t numel) {
  ZERO_CHECK(placement_.parameter_sharded, "whole parameters are never away");
  if (numel == 0) return;
  const std::int64_t size = parameter_.element_bytes(unit);
  if (!prefetching_.empty() && prefetching_.front() == unit) {
    prefetching_.pop_front();
  } else {
    std::erase(prefetching_, unit);
    std::vector<TileRange> ranges{{unit, numel}};
    for (const int other : prefetching_) ranges.push_back({other, parameter_.split(other).numel()});
    prefetches_.begin({{&parameter_, TileAccess::kBring}}, std::move(ranges));
  }
  while (prefetches_.next_unit() == unit) {
    const Tile* tile = prefetches_.next();
    std::memcpy(into + tile->begin * size, tile->data[0], static_cast<std::size_t>(tile->numel * size));
  }
  prefetches_.put_back();
}

std::byte* ShardedState::updated_parameter(int unit) const {
  return placement_.optimizer_sharded ? parameter_shard(unit).data() : parameter_.on_device(unit);
}

float* ShardedState::master(int unit) const {
  return reinterpret_cast<float*>(master_.on_device(unit));
}

float* ShardedState::moment(int unit, int which) const {
  return which < static_cast<int>(moments_.size())
             ? reinterpret_cast<float*>(moments_[static_cast<std::size_t>(which)].on_device(unit))
             : nullptr;
}

DType ShardedState::gradient_dtype(int unit) const {
  return placement_.fp32_gradient() ? DType::kFloat32 : this->unit(unit).dtype;
}

std::byte* ShardedState::whole_gradient(int unit) const {
  return placement_.gradient_sharded ? nullptr : gradient_.on_device(unit);
}

std::byte* ShardedState::gradient_shard(int unit) const {
  std::byte* held = gradient_.on_device(unit);
  if (held == nullptr || placement_.gradient_sharded) return held;
  return held + shard(unit).offset * gradient_.element_bytes(unit);
}

std::int64_t ShardedState::gradient_shard_bytes(int unit) const {
  return shard(unit).numel * gradient_.element_bytes(unit);
}

void ShardedState::fetch_gradient(int unit, std::byte* into) {
  finish_offloads();
  const std::int64_t size = gradient_.element_bytes(unit);
  for_each_tile(pass_, gradient_, TileAccess::kBring, unit, [&](const Tile& tile) {
    std::memcpy(into + tile.begin * size, tile.data[0], static_cast<std::size_t>(tile.numel * size));
  });
}

void ShardedState::offload_gradient(int unit, const std::byte* from) {
  const std::int64_t size = gradient_.element_bytes(unit);
  for_each_tile(offloads_, gradient_, TileAccess::kSend, unit, [&](const Tile& tile) {
    std::memcpy(tile.data[0], from + tile.begin * size, static_cast<std::size_t>(tile.numel * size));
  });
}

void ShardedState::load(int index, const std::byte* whole, DType dtype) {
  cancel_prefetch();
  const Unit& unit = this->unit(index);
  const auto take = [&](const StateArray& array, Shard held, DType to) {
    for_each_tile(pass_, array, TileAccess::kWrite, index, [&](const Tile& tile) {
      convert(whole, dtype, tile.data[0], to, held.offset + tile.begin, tile.numel, unit.numel);
    });
  };
  take(parameter_, held_parameter(index), unit.dtype);
  take(master_, update_range(index), DType::kFloat32);
  pass_.finish();
}

void ShardedState::store(int index, const std::byte* whole) {
  cancel_prefetch();
  const Unit& unit = this->unit(index);
  if (whole != parameter_.on_device(index)) {
    const Shard held = held_parameter(index);
    for_each_tile(pass_, parameter_, TileAccess::kWrite, index, [&](const Tile& tile) {
      convert(whole, unit.dtype, tile.data[0], unit.dtype, held.offset + tile.begin, tile.numel, unit.numel);
    });
  }
  // Only what was written: an element whose master still rounds to the parameter keeps its full precision.
  const Shard updated = update_range(index);
  for_each_tile(pass_, master_, TileAccess::kReadWrite, index, [&](const Tile& tile) {
    auto* master = reinterpret_cast<float*>(tile.data[0]);
    const std::int64_t first = updated.offset + tile.begin;
    const auto* low = reinterpret_cast<const BFloat16Bits*>(whole) + first;
    const std::int64_t numel = std::clamp<std::int64_t>(unit.numel - first, 0, tile.numel);
    for (std::int64_t i = 0; i < numel; ++i) {
      if (to_bfloat16(master[i]) != low[i]) master[i] = to_float(low[i]);
    }
  });
  pass_.finish();
}

DType ShardedState::saved_dtype(int unit, int state) const {
  return state > 0 || master_.has(unit) ? DType::kFloat32 : this->unit(unit).dtype;
}

void ShardedState::read_shard(int index, int state, const ReadVisit& visit) {
  ZERO_CHECK(state >= 0 && state < num_saved_states(index), "{} has no state {}", unit(index).name, state);
  const Shard own = shard(index);
  const bool whole_array = state > 0 || master_.has(index);
  const StateArray& array = state > 0            ? moments_[static_cast<std::size_t>(state - 1)]
                            : master_.has(index) ? master_
                                                 : parameter_;
  const Shard held = whole_array ? update_range(index) : held_parameter(index);
  const auto size = static_cast<std::int64_t>(size_of(saved_dtype(index, state)));
  for_each_tile(pass_, array, TileAccess::kRead, index, [&](const Tile& tile) {
    const std::int64_t first = std::max(held.offset + tile.begin, own.offset);
    const std::int64_t end = std::min(held.offset + tile.begin + tile.numel, own.offset + own.numel);
    if (first >= end) return;
    visit(first,
          {tile.data[0] + (first - held.offset - tile.begin) * size, static_cast<std::size_t>((end - first) * size)});
  });
}

void ShardedState::read_replicated(int index, const ReplicaVisit& visit) {
  const std::int64_t numel = unit(index).numel;
  const auto read = [&](const StateArray& array) {
    const std::int64_t size = array.element_bytes(index);
    for_each_tile(pass_, array, TileAccess::kRead, index, [&](const Tile& tile) {
      const std::int64_t count = std::clamp<std::int64_t>(numel - tile.begin, 0, tile.numel);
      if (count > 0) visit({tile.data[0], static_cast<std::size_t>(count * size)});
    });
  };
  if (!placement_.parameter_sharded) read(parameter_);
  if (placement_.optimizer_sharded) return;
  read(master_);
  for (const StateArray& moment : moments_) read(moment);
}

void ShardedState::write_held(int index, int state, const WriteFill& fill) {
  ZERO_CHECK(state >= 0 && state < num_saved_states(index), "{} has no state {}", unit(index).name, state);
  cancel_prefetch();
  std::vector<float> full;  // what a bf16 tile is rounded from
  const auto write = [&](const StateArray& array, Shard held, DType dtype) {
    for_each_tile(pass_, array, TileAccess::kWrite, index, [&](const Tile& tile) {
      if (dtype == DType::kFloat32) {
        fill(held.offset + tile.begin, {reinterpret_cast<float*>(tile.data[0]), static_cast<std::size_t>(tile.numel)});
        return;
      }
      for (std::int64_t begin = 0; begin < tile.numel; begin += TileStream::kTileNumel) {
        const std::int64_t count = std::min(TileStream::kTileNumel, tile.numel - begin);
        full.resize(static_cast<std::size_t>(count));
        fill(held.offset + tile.begin + begin, full);
        convert(reinterpret_cast<const std::byte*>(full.data()), DType::kFloat32,
                tile.data[0] + begin * static_cast<std::int64_t>(size_of(dtype)), dtype, 0, count, count);
      }
    });
  };
  if (state > 0) {
    write(moments_[static_cast<std::size_t>(state - 1)], update_range(index), DType::kFloat32);
  } else {
    write(parameter_, held_parameter(index), unit(index).dtype);
    write(master_, update_range(index), DType::kFloat32);
  }
  pass_.finish();
}

void ShardedState::read_full_precision_shard(int index, std::span<float> out) {
  const Shard own = shard(index);
  ZERO_CHECK(static_cast<std::int64_t>(out.size()) == own.numel, "a shard of {} elements into {}", own.numel,
             out.size());
  const DType dtype = saved_dtype(index, 0);
  read_shard(index, 0, [&](std::int64_t first, std::span<const std::byte> elements) {
    const auto numel = static_cast<std::int64_t>(elements.size() / size_of(dtype));
    convert(elements.data(), dtype, reinterpret_cast<std::byte*>(out.data() + (first - own.offset)), DType::kFloat32, 0,
            numel, numel);
  });
}

}  // namespace zero
