// PassStates: the states that one pass over tiles reads and writes. PassArrays: their arrays, and a tile in each.
//
//   constexpr PassStates kAnchors{.writes = true, .touches = [](const StateSpec& state, std::size_t, std::size_t) {
//                                   return state.outer && !state.of_copy; }};
//   PassArrays arrays(state, kAnchors);
//   stream.begin(arrays.take(), {{unit, numel}}, arrays.link_transfers());
//   const TileMemory memory = arrays.memory_of(*stream.next(), {});
//   memory.span(0, 128)                        // the first 128 elements of the tile
//
// Each kind of pass declares its PassStates beside its code. Local.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "zero/engine/states/sharded_state.h"
#include "zero/engine/states/tile_stream.h"
#include "zero/optim/rule/update_span.h"

namespace zero {

struct PassStates {
  bool gradient = false;   // read
  bool parameter = false;  // read, with its master
  bool writes = false;     // the parameter, and the optimizer's states that it touches
  // Returns whether the pass touches the optimizer's state `index` of `count`.
  bool (*touches)(const StateSpec& state, std::size_t index, std::size_t count) = nullptr;
};

// A unit's gradient for a pass: element 0 of its update range. Null: it is not on the device, or the pass has none.
struct UnitGradient {
  const std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
};

// Element 0 of a tile in each array that its pass reads or writes.
struct TileMemory {
  std::byte* held = nullptr;  // the parameter in the unit's type
  float* parameter = nullptr;
  const std::byte* gradient = nullptr;
  DType gradient_dtype = DType::kFloat32;
  std::array<float*, kMostStates> states{};
  std::array<CodedState, kMostStates> coded{};
  DType held_dtype = DType::kFloat32;
  UpdateSpan span(std::int64_t begin, std::int64_t end) const;
};

class PassArrays {
 public:
  // Holds nothing.
  PassArrays() = default;
  // `state` must outlive it.
  PassArrays(const ShardedState& state, const PassStates& states);

  const PassStates& states() const { return states_; }
  // Returns the arrays for TileStream::begin(), once.
  std::vector<TileArray> take() { return std::move(arrays_); }
  // Returns the transfers of whole states: they are on the device, and the parts that the host updates cross the link
  // both ways.
  std::vector<LinkTransfer> link_transfers() const;
  // `gradient` is not read if gradients are among the arrays.
  TileMemory memory_of(const Tile& tile, const UnitGradient& gradient) const;
  // Returns the position of the parameter among the arrays; -1: parameters are whole, or not in the pass.
  int parameter() const { return parameter_; }
  // Returns whether gradients are among the arrays.
  bool has_gradient() const { return gradient_ >= 0; }

 private:
  int add(const StateArray& array, TileAccess access);
  std::byte* held_whole(int unit) const;

  const ShardedState* state_ = nullptr;
  PassStates states_;
  std::vector<TileArray> arrays_;
  // Positions among the arrays; -1: not in the pass.
  int parameter_ = -1, gradient_ = -1, master_ = -1;
  std::vector<int> optimizer_, scales_;  // by state
};

}  // namespace zero
