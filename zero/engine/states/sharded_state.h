// ShardedState: what this rank holds of every unit, as its placement says: parameter, gradient, master and the
// optimizer's states, each whole or this rank's shard, on the tiers that the placement names.
//
// One StateArray a state, charged to the ledger under the state's tag. Parameters and whole gradients on the device lie
// in memory the transport likes best, so that peers can read them in place.
//
//   ShardedState state(units, placement, rule.states(), comm, ledger, {.disk = &disk});   // units have the rule's grain
//   state.contents().load(u, whole, DType::kFloat32);     // keeps this rank's part
//   state.parameter_shard(u)                              // the bytes that peers gather; empty where they lie elsewhere:
//   state.streams().fetch_parameter(u, into, numel);      // then they are brought
//
// This class knows which ranges are held and where they lie; streams() brings and takes what lies off the device;
// contents() reads and writes the values, wherever they lie. States of rows and columns are factors(), whole on the device.
//
// Invariant: padding and gaps between slices are zero. Construction is Collective; everything else Local. What accesses
// the disk throws IoError.
#pragma once

#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/states/factor_states.h"
#include "zero/engine/states/offload_tiers.h"
#include "zero/engine/states/state_arrays.h"
#include "zero/engine/states/state_contents.h"
#include "zero/engine/states/state_streams.h"
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

  // Ranges of a unit: this rank's shard; what its update covers, and what it holds of the parameters (the shard, or
  // everything where that state is whole).
  Shard shard(int unit) const { return shard_of(this->unit(unit), rank_, world_); }
  Shard update_range(int unit) const;
  Shard parameter_range(int unit) const;

  // The unit's whole padded range where this rank holds it, else null.
  std::byte* whole_parameter(int unit) const;
  // Empty where not all of it is on the device.
  std::span<std::byte> parameter_shard(int unit) const;

  // Gradient after reduction: fp32 while micro-batches are summed, else the unit's dtype.
  DType gradient_dtype(int unit) const;
  std::byte* whole_gradient(int unit) const;  // null where only a shard is held
  std::byte* gradient_shard(int unit) const;  // this rank's shard; null where not all of it is on the device
  // With a delayed update there are two gradients of each unit: the one that is being made, and the one that waits to
  // be applied. They change places; the update must be finished with the latter, and nothing else run.
  void keep_gradients();
  // What the update reads: the gradient that was kept, where there are two.
  const StateArray& applied_gradient() const;

  // Between steps, of a movable state: what lies elsewhere in `tiers` (by unit) moves there. Nothing may be gathered,
  // fetched or being updated, here or by peers. Returns the bytes that moved.
  std::int64_t move_to(const std::vector<UnitTiers>& tiers);

  const StateArrays& arrays() const { return arrays_; }
  const FactorStates& factors() const { return factors_; }
  FactorStates& factors() { return factors_; }
  StateStreams& streams() { return streams_; }
  Device& device() const { return streams_.device(); }
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
