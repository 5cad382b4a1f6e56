// StateArray: one state of every unit on this rank (say, the first moments), on any tier.
//
//   StateArray moments(layout, MemoryTag::kMoment, {.ledger = ledger, .disk = &disk}, allocate_host);
//   moments.memory(u, 0)               // element 0 of unit u if in memory: it and the rest of its tier's part
//   moments.disk_offset(u, element)    // an element's place in the disk tier
//
// It has one arena on each tier that is memory, and one place a unit on disk, all zero at first. A movable array
// reserves its full address range on every tier, and commits memory only where its splits place elements. Moving a
// state is then only a copy:
//
//   for (StatePiece& piece : moments.pieces_to(splits)) moments.move(piece, piece.to);  // see move_pieces()
//   moments.settle(splits);                                                             // now the splits are these
//
// Local, but construction is Collective if `allocate_device` is.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "zero/base/numbers/state_spec.h"
#include "zero/base/process/allocation.h"
#include "zero/device/host_device.h"
#include "zero/memory/account/charge.h"
#include "zero/memory/disk/disk_tier.h"
#include "zero/plan/units/tier_split.h"

namespace zero {

// Layout of a state by unit. element_bytes 0: the unit does not have the state. `block`: number of elements that share
// one value of element_bytes, as the elements of a scale do. If it exceeds 1, all values are on the device, and splits
// are multiples of `block`.
struct ArrayLayout {
  std::vector<TierSplit> splits;
  std::vector<std::int64_t> element_bytes;
  std::int64_t block = 1;
};

struct Tiers {
  Ledger& ledger;
  DiskTier* disk = nullptr;  // null: no state may be on disk
  bool movable = false;      // reserves room for the whole state on disk
  Device* device = &HostDevice::instance();
  bool crosses = true;  // lanes copy the host's part, so it is pinned
};

// Elements of a unit's state to move from one tier to another, in whole pages except at the unit's end.
struct StatePiece {
  std::size_t unit = 0;
  std::int64_t begin = 0, numel = 0;
  Tier from = Tier::kDevice, to = Tier::kDevice;
};

class StateArray {
 public:
  using Allocator = std::function<Allocation(std::size_t)>;
  StateArray() = default;
  // Throws what the allocators throw; ConfigError under "zero.disk_memory" and IoError from the disk.
  StateArray(ArrayLayout layout, MemoryTag tag, const Tiers& tiers, const Allocator& allocate_device);

  bool has(int unit) const { return element_bytes(unit) > 0; }
  std::int64_t element_bytes(int unit) const {
    return layout_.element_bytes.empty() ? 0 : layout_.element_bytes[static_cast<std::size_t>(unit)];
  }
  // Returns the bytes of `numel` elements, the first of which begins a block.
  std::int64_t bytes_of(int unit, std::int64_t numel) const {
    return (numel + layout_.block - 1) / layout_.block * element_bytes(unit);
  }
  const TierSplit& split(int unit) const { return layout_.splits[static_cast<std::size_t>(unit)]; }
  // Returns the unit's whole range if all of it is on the device, else null.
  std::byte* on_device(int unit) const;

  // Returns null for an element on disk.
  std::byte* memory(int unit, std::int64_t element) const;
  std::int64_t disk_offset(int unit, std::int64_t element) const;

  bool movable() const { return movable_; }
  // Returns the elements that `splits` (by unit) puts on another tier, in pieces of at most kMostPieceBytes. The array
  // must be movable, and unused until settle().
  static constexpr std::int64_t kMostPieceBytes = std::int64_t{16} << 20;
  std::vector<StatePiece> pieces_to(const std::vector<TierSplit>& splits) const;
  std::int64_t bytes(const StatePiece& piece) const { return piece.numel * layout_.element_bytes[piece.unit]; }
  // Moves a piece to a tier, which may be a temporary one, and sets piece.from. Throws IoError.
  void move(StatePiece& piece, Tier to);
  void settle(const std::vector<TierSplit>& splits);

 private:
  std::byte* place(std::size_t unit, Tier tier, std::int64_t element) const;
  std::int64_t disk_place(std::size_t unit, std::int64_t element) const;
  void zero_disk(std::size_t unit, std::int64_t offset, std::int64_t bytes) const;
  void copy_by_disk(const StatePiece& piece, Tier to);

  ArrayLayout layout_;
  Device* device_ = nullptr;
  DiskTier* disk_ = nullptr;
  bool movable_ = false;
  PerTier<Allocation> memory_;  // empty for a tier that is no memory
  PerTier<Charge> charges_;
  // By tier and unit, in bytes: the beginning of the tier's part, or, in a movable array, the place of element 0.
  PerTier<std::vector<std::int64_t>> offsets_;
};

// StateArrays: the states of every unit on a rank, one StateArray for each state.
//
//   for (const auto& each : state.arrays().optimizer) print(each.state.name);        // "exp_avg", "exp_avg_sq"
//
// They are parameter, gradient, master, and any number of optimizer states by name.
struct StateArrays {
  struct Optimizer {
    StateSpec state;
    StateArray array;   // values, or their codes
    StateArray scales;  // scales of the codes; no unit has them if there are no codes
  };
  StateArray parameter, gradient, master;
  StateArray kept_gradient;  // with a delayed update: the waiting gradient
  std::vector<Optimizer> optimizer;
};

// move_pieces(): moves states between tiers; no tier holds more during the move than before or after it.
//
//   std::vector<PlacedPiece> pieces;      // of all arrays
//   const std::int64_t moved = move_pieces(pieces);
//
// A PlacedPiece is one piece of one array.
struct PlacedPiece {
  StateArray* array = nullptr;
  StatePiece piece;
};

// Local. Moves pieces for the disk first, then pieces for which their new tier has room. If pieces need each other's
// places, one of them waits on the disk; movable arrays have room for all elements there. Returns the bytes that moved;
// a piece that waited counts once. Throws IoError.
std::int64_t move_pieces(std::vector<PlacedPiece> pieces);

}  // namespace zero
