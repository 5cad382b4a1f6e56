// ShardedState: what this rank holds of every unit, as its placement says: parameter, gradient, master, moments, each
// whole or this rank's shard, on the tiers that the placement names.
//
// One StateArray a state, charged to the ledger under the state's tag. Parameters and whole gradients on the device lie
// in memory the transport likes best, so that peers can read them in place.
//
//   ShardedState state(units, placement, /*num_moments=*/2, comm, ledger, &disk);
//   state.load(u, whole, DType::kFloat32);          // keeps this rank's part
//   state.parameter_shard(u)                        // the bytes that peers gather; empty where they lie elsewhere:
//   state.fetch_parameter(u, into, numel)           // then they are brought
//
// Invariant: padding and gaps between slices are zero. Construction is Collective; everything else Local. What accesses
// the disk throws IoError.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/state_array.h"
#include "zero/engine/tile_stream.h"
#include "zero/plan/partition.h"
#include "zero/plan/placement.h"
#include "zero/plan/unit.h"

namespace zero {

class ShardedState {
 public:
  static constexpr int kDefaultDepth = 4;
  struct Surroundings {
    DiskTier* disk = nullptr;   // may be null where the placement puts nothing there
    Link* link = nullptr;       // null where none stands between device and host
    int depth = kDefaultDepth;  // tiles read ahead, and written behind; with 1 nothing is fetched ahead of its use
    bool movable = false;       // what can leave the device may move between tiers later
  };
  ShardedState(const std::vector<Unit>& units, const Placement& placement, int num_moments, Communicator& comm,
               Ledger& ledger, const Surroundings& surroundings);
  ShardedState(const std::vector<Unit>& units, const Placement& placement, int num_moments, Communicator& comm,
               Ledger& ledger)
      : ShardedState(units, placement, num_moments, comm, ledger, Surroundings{}) {}
  // Tiles of a unit's parameters that come ahead of its gather, and of its gradient that leave behind its reduction.
  static constexpr int prefetch_depth(int depth) { return depth > 1 ? 4 * depth : 1; }
  // Elements in those, where the host's budget allows the usual depth.
  static constexpr std::int64_t most_prefetched_numel() {
    return prefetch_depth(kDefaultDepth) * TileStream::kTileNumel;
  }

  const Unit& unit(int index) const { return units_[static_cast<std::size_t>(index)]; }
  const std::vector<Unit>& units() const { return units_; }
  const Placement& placement() const { return placement_; }
  int world() const { return world_; }
  int depth() const { return depth_; }
  // That this rank has waited for disk and link so far.
  double waited_seconds() const;

  // This rank's shard of a unit, and the range that its update covers (the shard, or everything at stage 0).
  Shard shard(int unit) const { return shard_of(this->unit(unit), rank_, world_); }
  Shard update_range(int unit) const;

  // The unit's whole padded range where this rank holds it, else null.
  std::byte* whole_parameter(int unit) const;
  // Empty where not all of it is on the device.
  std::span<std::byte> parameter_shard(int unit) const;
  // The first `numel` elements of this rank's shard from wherever they lie; `into` has its bytes. begin_prefetch() lets
  // them come ahead of that, one unit after the other in the order in which they are begun: one that is fetched out of
  // turn lets the others begin again. Their contents must not change in between.
  // False: it is on its way already.
  bool begin_prefetch(int unit);
  bool fetches(int unit) const { return std::ranges::count(prefetching_, unit) > 0; }
  void cancel_prefetch();
  void fetch_parameter(int unit, std::byte* into, std::int64_t numel);
  // An update's new parameters are moved to where they lie: TileStream::flush() before they are used.
  bool moves_parameters() const { return moves_parameters_; }
  // Where the update of update_range() reads and writes, on the device: parameters of the unit's dtype, fp32 master,
  // moments. Null where the unit has none, or not all of it is on the device: then a tile pass over arrays() brings it.
  std::byte* updated_parameter(int unit) const;
  float* master(int unit) const;
  float* moment(int unit, int which) const;

  // Gradient after reduction: fp32 while micro-batches are summed, else the unit's dtype.
  DType gradient_dtype(int unit) const;
  std::byte* whole_gradient(int unit) const;  // null where only a shard is held
  std::byte* gradient_shard(int unit) const;  // this rank's shard; null where not all of it is on the device
  std::int64_t gradient_shard_bytes(int unit) const;
  void fetch_gradient(int unit, std::byte* into);
  // `from` may be used again when it returns; the gradient is there after finish_offloads(), or a fetch_gradient().
  void offload_gradient(int unit, const std::byte* from);
  void finish_offloads() { offloads_.finish(); }
  // Another one would begin at once.
  bool may_offload() { return offloads_.idle(); }
  // With a delayed update there are two gradients of each unit: the one that is being made, and the one that waits to
  // be applied. They change places; the update must be finished with the latter, and nothing else run.
  void keep_gradients() { std::swap(gradient_, kept_gradient_); }

  // Between steps, of a movable state: what lies elsewhere in `tiers` (by unit) moves there. Nothing may be gathered,
  // fetched or being updated, here or by peers. Returns the bytes that moved.
  std::int64_t move_to(const std::vector<UnitTiers>& tiers);

  // Takes this rank's part from a whole range given in `dtype` (the unit's own, or fp32: then the master is exact).
  // `whole` has unit.numel elements; gaps in it must be zero.
  void load(int unit, const std::byte* whole, DType dtype);
  // The same from the gathered range of the unit's own dtype after somebody wrote into it: parameter and master follow.
  void store(int unit, const std::byte* whole);
  // This rank's shard in full precision: the master where there is one.
  void read_full_precision_shard(int unit, std::span<float> out);

  // What a checkpoint has of a unit. State 0: the parameters in full precision; then the moments.
  int num_saved_states(int unit) const {
    return this->unit(unit).trainable ? 1 + static_cast<int>(moments_.size()) : 1;
  }
  DType saved_dtype(int unit, int state) const;
  // Calls visit(first, elements) for all of this rank's shard, piece by piece; `first` counts in the unit's flat range.
  using ReadVisit = std::function<void(std::int64_t first, std::span<const std::byte> elements)>;
  void read_shard(int unit, int state, const ReadVisit& visit);
  // Calls fill(first, elements) for all that this rank holds of a state (at low stages that is more than its shard),
  // some of it perhaps twice; elements beyond the unit must be filled with zeros. Ends with everything where it lies.
  using WriteFill = std::function<void(std::int64_t first, std::span<float> elements)>;
  void write_held(int unit, int state, const WriteFill& fill);
  // What it asks for, of the unit's padded range.
  Shard held(int unit, int state) const;

  // Calls visit(elements) for all of a unit that every rank holds alike, piece by piece: the parameters where they are
  // whole, then master and moments where those are; no padding. Never called where everything is sharded.
  using ReplicaVisit = std::function<void(std::span<const std::byte> elements)>;
  void read_replicated(int unit, const ReplicaVisit& visit);

  const StateArray& parameters() const { return parameter_; }
  const StateArray& applied_gradients() const { return placement_.delayed_update ? kept_gradient_ : gradient_; }
  const StateArray& masters() const { return master_; }
  const std::vector<StateArray>& moments() const { return moments_; }
  // The update's pass over them. Nothing else may change a state while it runs.
  TileStream& update_pass() { return updates_; }

 private:
  template <typename ElementBytes>
  ArrayLayout layout(TierSplit UnitTiers::*state, ElementBytes element_bytes) const;
  // Calls visit(tile) for every tile of one unit's part of one array.
  template <typename Visit>
  void for_each_tile(TileStream& pass, const StateArray& array, TileAccess access, int unit, Visit visit);
  Shard held_parameter(int unit) const;
  bool any_parameter_on_disk() const;

  std::vector<Unit> units_;
  Placement placement_;
  int rank_ = 0;
  int world_ = 1;
  StateArray parameter_, gradient_, kept_gradient_, master_;
  std::vector<StateArray> moments_;
  BlockPool staging_;  // tiles of what lies on disk
  TileStream pass_;    // of what is done at once
  TileStream updates_, prefetches_, offloads_;
  std::deque<int> prefetching_;  // units that come ahead, in their order
  int depth_ = kDefaultDepth;
  DiskTier* disk_ = nullptr;
  Link* link_ = nullptr;
  bool moves_parameters_ = false;
};

}  // namespace zero
