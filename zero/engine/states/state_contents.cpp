#include "zero/engine/states/state_contents.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "zero/base/error/check.h"
#include "zero/device/host_copy.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/optim/rule/eight_bit_code.h"

namespace zero {
namespace {

// Converts elements of a range of the unit, from whole parameters (in from_dtype) to to_dtype; padding is zero.
void take_range(const Unit& unit, const Shard& range, const std::byte* whole, DType from_dtype, std::byte* to,
                DType to_dtype) {
  const auto from_size = static_cast<std::int64_t>(size_of(from_dtype));
  const auto to_size = static_cast<std::int64_t>(size_of(to_dtype));
  std::memset(to, 0, static_cast<std::size_t>(range.numel * to_size));
  for_each_stretch(unit, range, [&](std::int64_t offset, std::int64_t place, std::int64_t numel) {
    const std::byte* const from = whole + place * from_size;
    std::byte* const here = to + (offset - range.offset) * to_size;
    if (from_dtype == to_dtype) {
      std::memcpy(here, from, static_cast<std::size_t>(numel * to_size));
    } else {
      convert_elements(from, from_dtype, here, to_dtype, numel);
    }
  });
}

// A state in 8 bits has two arrays: codes and scales.
CodedState codes_of(const Tile& tile) {
  return {reinterpret_cast<std::uint8_t*>(tile.data[0]), reinterpret_cast<float*>(tile.data[1])};
}

}  // namespace

const StateArrays& StateContents::arrays() const {
  return state_.arrays();
}

const StateArrays::Optimizer& StateContents::optimizer(int state) const {
  return arrays().optimizer[static_cast<std::size_t>(state - 1)];
}

int StateContents::num_saved_states(int unit) const {
  return state_.unit(unit).trainable ? 1 + static_cast<int>(arrays().optimizer.size()) : 1;
}

bool StateContents::keeps(int unit, int state) const {
  return state < num_saved_states(unit) && (state == 0 || optimizer(state).array.has(unit));
}

Shard StateContents::held(int unit, int state) const {
  const Shard updated = state_.update_range(unit), parameter = state_.parameter_range(unit);
  return state > 0 || updated.numel > parameter.numel ? updated : parameter;
}

void StateContents::load(int index, const std::byte* whole, DType dtype) {
  streams_.cancel_prefetches();
  const Unit& unit = state_.unit(index);
  const auto take = [&](const StateArray& array, Shard held, DType to) {
    for_each_tile(streams_.visits(), {{&array, TileAccess::kWrite}}, index, [&](const Tile& tile) {
      take_range(unit, {held.offset + tile.begin, tile.numel}, whole, dtype, tile.data[0], to);
    });
  };
  take(arrays().parameter, state_.parameter_range(index), unit.dtype);
  take(arrays().master, state_.update_range(index), DType::kFloat32);
  streams_.visits().finish();
}

void StateContents::store(int index, const std::byte* whole) {
  streams_.cancel_prefetches();
  const Unit& unit = state_.unit(index);
  const HostCopy written(state_.device(), Lane::kCompute,
                         {whole, static_cast<std::size_t>(padded_numel(unit, state_.world())) * size_of(unit.dtype)});
  if (whole != arrays().parameter.on_device(index)) {
    const Shard held = state_.parameter_range(index);
    for_each_tile(streams_.visits(), {{&arrays().parameter, TileAccess::kWrite}}, index, [&](const Tile& tile) {
      take_range(unit, {held.offset + tile.begin, tile.numel}, written.data(), unit.dtype, tile.data[0], unit.dtype);
    });
  }
  // Changes only written elements: an element whose master still rounds to the parameter keeps its full precision.
  const Shard updated = state_.update_range(index);
  for_each_tile(streams_.visits(), {{&arrays().master, TileAccess::kReadWrite}}, index, [&](const Tile& tile) {
    const std::int64_t first = updated.offset + tile.begin;
    for_each_stretch(unit, {first, tile.numel}, [&](std::int64_t offset, std::int64_t place, std::int64_t numel) {
      auto* master = reinterpret_cast<float*>(tile.data[0]) + (offset - first);
      with_type_of(unit.dtype, [&]<typename T>(std::type_identity<T>) {
        const auto* low = reinterpret_cast<const T*>(written.data()) + place;
        for (std::int64_t i = 0; i < numel; ++i) {
          if (rounded_to<T>(master[i]) != low[i]) master[i] = to_float(low[i]);
        }
      });
    });
  });
  streams_.visits().finish();
}

DType StateContents::saved_dtype(int unit, int state) const {
  if (state > 0) return DType::kFloat32;
  return arrays().master.has(unit) ? DType::kFloat32 : state_.unit(unit).dtype;
}

void StateContents::read_shard(int index, int state, const ReadVisit& visit) {
  ZERO_CHECK(state >= 0 && keeps(index, state), "{} has no state {}", state_.unit(index).name, state);
  if (state > 0 && optimizer(state).state.coded()) return read_coded_shard(index, optimizer(state), visit);
  const Shard own = state_.shard(index);
  const bool whole_array = state > 0 || arrays().master.has(index);
  const StateArray& array = state > 0                    ? optimizer(state).array
                            : arrays().master.has(index) ? arrays().master
                                                         : arrays().parameter;
  const Shard held = whole_array ? state_.update_range(index) : state_.parameter_range(index);
  const auto size = static_cast<std::int64_t>(size_of(saved_dtype(index, state)));
  for_each_tile(streams_.visits(), {{&array, TileAccess::kRead}}, index, [&](const Tile& tile) {
    const std::int64_t first = std::max(held.offset + tile.begin, own.offset);
    const std::int64_t end = std::min(held.offset + tile.begin + tile.numel, own.offset + own.numel);
    if (first >= end) return;
    visit(first,
          {tile.data[0] + (first - held.offset - tile.begin) * size, static_cast<std::size_t>((end - first) * size)});
  });
}

// Tiles, shards and held ranges begin at blocks of codes.
void StateContents::read_coded_shard(int index, const StateArrays::Optimizer& state, const ReadVisit& visit) {
  const Shard own = state_.shard(index), held = state_.update_range(index);
  std::vector<float> values;
  for_each_tile(streams_.visits(), {{&state.array, TileAccess::kRead}, {&state.scales, TileAccess::kRead}}, index,
                [&](const Tile& tile) {
                  const std::int64_t origin = held.offset + tile.begin;
                  const std::int64_t end = std::min(origin + tile.numel, own.offset + own.numel);
                  for (std::int64_t first = std::max(origin, own.offset); first < end;
                       first += TileStream::kTileNumel) {
                    values.resize(static_cast<std::size_t>(std::min(TileStream::kTileNumel, end - first)));
                    decode_blocks(state.state.code, codes_of(tile).from(first - origin), values);
                    visit(first, std::as_bytes(std::span<const float>(values)));
                  }
                });
}

void StateContents::write_coded(int index, const StateArrays::Optimizer& state, const WriteFill& fill) {
  std::vector<float> values;
  for_each_tile(streams_.visits(), {{&state.array, TileAccess::kWrite}, {&state.scales, TileAccess::kWrite}}, index,
                [&](const Tile& tile) {
                  for (std::int64_t begin = 0; begin < tile.numel; begin += TileStream::kTileNumel) {
                    values.resize(static_cast<std::size_t>(std::min(TileStream::kTileNumel, tile.numel - begin)));
                    fill(state_.update_range(index).offset + tile.begin + begin, values);
                    encode_blocks(state.state.code, values, codes_of(tile).from(begin));
                  }
                });
}

void StateContents::read_replicated(int index, const ReplicaVisit& visit, HeldStates which) {
  read_held(index, /*sharded=*/false, state_.unit(index).numel, visit, which);
  if (which == HeldStates::kShared) return;
  for (const FactorStates::State& state : state_.factors().all())
    if (state.unit == index) visit(std::as_bytes(state.values));
}

void StateContents::read_sharded(int index, const ReplicaVisit& visit, HeldStates which) {
  read_held(index, /*sharded=*/true, state_.shard(index).numel, visit, which);
}

// Reads the first `numel` elements of the states that are whole, or of those that are sharded.
void StateContents::read_held(int index, bool sharded, std::int64_t numel, const ReplicaVisit& visit,
                              HeldStates which) {
  const auto read = [&](const StateArray& array) {
    for_each_tile(streams_.visits(), {{&array, TileAccess::kRead}}, index, [&](const Tile& tile) {
      const std::int64_t count = std::clamp<std::int64_t>(numel - tile.begin, 0, tile.numel);
      if (count > 0) visit({tile.data[0], static_cast<std::size_t>(array.bytes_of(index, count))});
    });
  };
  const bool own = which != HeldStates::kShared, shared = which != HeldStates::kOwn;
  if (own && state_.placement().parameter_sharded == sharded) read(arrays().parameter);
  if (state_.placement().optimizer_sharded != sharded) return;
  if (own) read(arrays().master);
  for (const auto& [state, array, scales] : arrays().optimizer) {
    if (!(state.shared() ? shared : own)) continue;
    read(array);
    read(scales);
  }
}

void StateContents::write_held(int index, int state, const WriteFill& fill) {
  ZERO_CHECK(state >= 0 && keeps(index, state), "{} has no state {}", state_.unit(index).name, state);
  streams_.cancel_prefetches();
  std::vector<float> full;  // fp32 input of a 16-bit tile
  const auto write = [&](const StateArray& array, Shard held, DType dtype) {
    for_each_tile(streams_.visits(), {{&array, TileAccess::kWrite}}, index, [&](const Tile& tile) {
      if (dtype == DType::kFloat32) {
        fill(held.offset + tile.begin, {reinterpret_cast<float*>(tile.data[0]), static_cast<std::size_t>(tile.numel)});
        return;
      }
      for (std::int64_t begin = 0; begin < tile.numel; begin += TileStream::kTileNumel) {
        const std::int64_t count = std::min(TileStream::kTileNumel, tile.numel - begin);
        full.resize(static_cast<std::size_t>(count));
        fill(held.offset + tile.begin + begin, full);
        convert_elements(reinterpret_cast<const std::byte*>(full.data()), DType::kFloat32,
                         tile.data[0] + begin * static_cast<std::int64_t>(size_of(dtype)), dtype, count);
      }
    });
  };
  if (state > 0 && optimizer(state).state.coded()) {
    write_coded(index, optimizer(state), fill);
  } else if (state > 0) {
    write(optimizer(state).array, state_.update_range(index), DType::kFloat32);
  } else {
    write(arrays().parameter, state_.parameter_range(index), state_.unit(index).dtype);
    write(arrays().master, state_.update_range(index), DType::kFloat32);
  }
  streams_.visits().finish();
}

void StateContents::read_full_precision_shard(int index, std::span<float> out) {
  const Shard own = state_.shard(index);
  ZERO_CHECK(static_cast<std::int64_t>(out.size()) == own.numel, "a shard of {} elements into {}", own.numel,
             out.size());
  const DType dtype = saved_dtype(index, 0);
  read_shard(index, 0, [&](std::int64_t first, std::span<const std::byte> elements) {
    const auto numel = static_cast<std::int64_t>(elements.size() / size_of(dtype));
    convert_elements(elements.data(), dtype, reinterpret_cast<std::byte*>(out.data() + (first - own.offset)),
                     DType::kFloat32, numel);
  });
}

}  // namespace zero
