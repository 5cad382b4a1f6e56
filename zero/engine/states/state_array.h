// StateArray: one state of every unit on this rank (say, the first moments), wherever it lies.
//
//   StateArray moments(layout, MemoryTag::kMoment, {.ledger = ledger, .disk = &disk}, allocate_host);
//   moments.memory(u, 0)               // element 0 of unit u, where that is in memory: it and what follows on its tier
//   moments.disk_offset(u, element)    // where an element lies in the disk tier
//
// One arena for the device's parts, one for the host's, one place a unit on disk. All zero at first, on disk too.
//
// A movable array has addresses for all of itself on every tier, and memory behind those alone that its splits name, so
// that what lies where can change with nothing but copies:
//
//   for (StatePiece& piece : moments.pieces_to(splits)) moments.move(piece, piece.to);  // see move_pieces()
//   moments.settle(splits);                                                             // now the splits are these
//
// Local, but construction is Collective where `allocate_device` is.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "zero/base/process/allocation.h"
#include "zero/device/host_device.h"
#include "zero/memory/account/charge.h"
#include "zero/memory/disk/disk_tier.h"
#include "zero/plan/units/tier_split.h"

namespace zero {

// The layout of a state by unit. element_bytes 0: the unit does not have the state. `block`: elements that share one
// value of element_bytes, as the elements of a scale do; then all values lie on the device, and splits are multiples of
// `block`.
struct ArrayLayout {
  std::vector<TierSplit> splits;
  std::vector<std::int64_t> element_bytes;
  std::int64_t block = 1;
};

struct Tiers {
  Ledger& ledger;
  DiskTier* disk = nullptr;  // null: nothing may lie there
  bool movable = false;      // takes a place for the whole state on disk
  Device* device = &HostDevice::instance();
  bool crosses = true;  // lanes copy what lies on the host: it is pinned
};

// Elements of a unit's state that lie on one tier and are to lie on another; whole pages, but for the unit's end.
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
  // Of `numel` elements, the first of which begins a block.
  std::int64_t bytes_of(int unit, std::int64_t numel) const {
    return (numel + layout_.block - 1) / layout_.block * element_bytes(unit);
  }
  const TierSplit& split(int unit) const { return layout_.splits[static_cast<std::size_t>(unit)]; }
  // The unit's whole range on the device, as one; else null.
  std::byte* on_device(int unit) const;

  // Null for an element on disk.
  std::byte* memory(int unit, std::int64_t element) const;
  std::int64_t disk_offset(int unit, std::int64_t element) const;

  bool movable() const { return movable_; }
  // Of a movable array that nobody uses until it is settled. What lies elsewhere in `splits` (by unit), in pieces of at
  // most kMostPieceBytes.
  static constexpr std::int64_t kMostPieceBytes = std::int64_t{16} << 20;
  std::vector<StatePiece> pieces_to(const std::vector<TierSplit>& splits) const;
  std::int64_t bytes(const StatePiece& piece) const { return piece.numel * layout_.element_bytes[piece.unit]; }
  // Takes it to a tier, where it then is: not always the one where it is to stay. Throws IoError.
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
  std::array<Allocation, 2> memory_;  // device, host
  std::array<Charge, kNumTiers> charges_;
  // By tier and unit, in bytes: where the tier's part begins, or, in a movable array, where element 0 would be.
  std::array<std::vector<std::int64_t>, kNumTiers> offsets_;
};

}  // namespace zero
