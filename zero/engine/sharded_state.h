// ShardedState: what this rank holds of every unit, as its placement says: parameter, gradient, master, moments.
//
// One arena a state, charged to the ledger under the state's tag; a unit's part of an arena is either its whole padded
// range or this rank's shard. Parameters and whole gradients lie in memory the transport likes best, so that peers can
// read them in place.
//
//   ShardedState state(units, place(3, Reduce::kAuto, 1), /*num_moments=*/2, comm, ledger);
//   state.load(u, whole, DType::kFloat32);          // keeps this rank's part
//   state.parameter_shard(u)                        // the bytes that peers gather
//
// Invariant: padding and gaps between slices are zero. Construction is Collective; everything else Local.
#pragma once

#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/memory/buffer.h"
#include "zero/plan/partition.h"
#include "zero/plan/placement.h"
#include "zero/plan/unit.h"

namespace zero {

class ShardedState {
 public:
  ShardedState(const std::vector<Unit>& units, const Placement& placement, int num_moments, Communicator& comm,
               Ledger& ledger);

  const Unit& unit(int index) const { return units_[static_cast<std::size_t>(index)]; }
  const std::vector<Unit>& units() const { return units_; }
  const Placement& placement() const { return placement_; }
  int world() const { return world_; }

  // This rank's shard of a unit, and the range that its update covers (the shard, or everything at stage 0).
  Shard shard(int unit) const { return shard_of(this->unit(unit), rank_, world_); }
  Shard update_range(int unit) const;

  // The unit's whole padded range where this rank holds it, else null.
  std::byte* whole_parameter(int unit) const;
  std::span<std::byte> parameter_shard(int unit) const;
  // Where the update of update_range() reads and writes: parameters of the unit's dtype; fp32 master (null for fp32
  // units).
  std::byte* updated_parameter(int unit) const;
  float* master(int unit) const;
  float* moment(int unit, int which) const;

  // Gradient after reduction: fp32 while micro-batches are summed, else the unit's dtype.
  DType gradient_dtype(int unit) const;
  std::byte* whole_gradient(int unit) const;  // null where only a shard is held
  std::byte* gradient_shard(int unit) const;  // this rank's shard

  // Takes this rank's part from a whole range given in `dtype` (the unit's own, or fp32: then the master is exact).
  // `whole` has unit.numel elements; gaps in it must be zero.
  void load(int unit, const std::byte* whole, DType dtype);
  // The same from the gathered range of the unit's own dtype after somebody wrote into it: parameter and master follow.
  void store(int unit, const std::byte* whole);
  // This rank's shard in full precision: the master where there is one.
  void read_full_precision_shard(int unit, std::span<float> out) const;

 private:
  struct Arena {
    Buffer buffer;
    std::vector<std::int64_t> offsets;  // of each unit, in bytes; -1: the unit has none
    std::byte* at(int unit) const;
  };
  enum class Holds : std::uint8_t { kWhole, kShard };
  // `size_of_element(unit)` is 0 for units without this state.
  template <typename SizeOfElement, typename Allocate>
  Arena make_arena(Holds holds, MemoryTag tag, Ledger& ledger, SizeOfElement size_of_element, Allocate allocate) const;

  std::vector<Unit> units_;
  Placement placement_;
  int rank_ = 0;
  int world_ = 1;
  Arena parameter_;
  Arena gradient_;
  Arena master_;
  std::vector<Arena> moments_;
};

}  // namespace zero
