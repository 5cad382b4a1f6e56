// ShardedState: the states of every unit on this rank, each whole or a shard, on the tiers of the placement.
//
//   ShardedState state(units, placement, rule.states(), comm, ledger, {.disk = &disk});
//   state.contents().load(u, whole, DType::kFloat32);     // keeps this rank's part
//   state.parameter_shard(u)                              // the bytes that peers gather; empty unless on the device:
//   state.streams().fetch_parameter(u, into, numel);      // then they are fetched
//
// Each state (parameter, gradient, master, the optimizer's) is a StateArray, charged to the ledger under the state's
// tag. Parameters and whole gradients on the device use memory of the transport, so peers can read them in place. This
// class knows the ranges that are held and their tiers. streams() transfers states that are not on the device.
// contents() reads and writes values on any tier. factors() are the states of rows and columns, whole on the device.
// Invariant: padding and gaps between slices are zero. Construction is Collective; everything else Local. Disk access
// throws IoError.
#pragma once

#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/states/factor_states.h"
#include "zero/engine/states/state_array.h"
#include "zero/engine/states/state_contents.h"
#include "zero/engine/states/state_streams.h"
#include "zero/engine/states/tile_stream.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/placement.h"
#include "zero/plan/units/unit.h"

namespace zero {

class ShardedState {
 public:
  ShardedState(const std::vector<Unit>& units, const Placement& placement, const std::vector<StateSpec>& optimizer,
               Communicator& comm, Ledger& ledger, const OffloadTiers& tiers = {});

  const Unit& unit(int index) const { return units_[static_cast<std::size_t>(index)]; }
  const std::vector<Unit>& units() const { return units_; }
  const Placement& placement() const { return placement_; }
  int world() const { return world_; }

  // Return ranges of a unit: this rank's shard, the range that its update covers, and the range of parameters that it
  // holds. The last is the shard, or everything if parameters are whole.
  Shard shard(int unit) const { return shard_of(this->unit(unit), rank_, world_); }
  Shard update_range(int unit) const;
  Shard parameter_range(int unit) const;

  // Returns the unit's whole padded range if this rank holds it, else null.
  std::byte* whole_parameter(int unit) const;
  // Returns an empty span unless all of the shard is on the device.
  std::span<std::byte> parameter_shard(int unit) const;

  // Returns the type of a reduced gradient: fp32 while micro-batches are summed, else the unit's dtype.
  DType gradient_dtype(int unit) const;
  std::byte* whole_gradient(int unit) const;  // null if only a shard is held
  std::byte* gradient_shard(int unit) const;  // this rank's shard; null unless all of it is on the device
  // Exchanges the two gradients of each unit that a delayed update needs: the one being computed, and the one that
  // waits. The update of the waiting gradient must have ended, and nothing else may run.
  void keep_gradients();
  // Returns the gradient that the update reads: the kept gradient, if there are two.
  const StateArray& applied_gradient() const;

  // Moves a movable state to `tiers` (by unit), between steps. Nothing may be gathered, fetched or being updated, here
  // or by peers. Returns the bytes that moved.
  std::int64_t move_to(const std::vector<UnitTiers>& tiers);

  const StateArrays& arrays() const { return arrays_; }
  const FactorStates& factors() const { return factors_; }
  FactorStates& factors() { return factors_; }
  StateStreams& streams() { return streams_; }
  Device& device() const { return *streams_.tiers().device; }
  StateContents& contents() { return contents_; }

 private:
  StateArrays make_arrays(const std::vector<StateSpec>& optimizer, Communicator& comm, Ledger& ledger,
                          const OffloadTiers& tiers) const;
  ArrayLayout scales_layout() const;

  std::vector<Unit> units_;
  Placement placement_;
  int rank_ = 0;
  int world_ = 1;
  StateArrays arrays_;
  FactorStates factors_;
  StateStreams streams_;
  StateContents contents_;
};

}  // namespace zero
