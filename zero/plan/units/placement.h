// Placement: says which states of a unit a rank holds whole, which as a shard, and on which tiers.
//
//   Placement placement = place(2, Reduce::kAuto, 1);   // parameter whole, gradient and optimizer sharded, reduce each
//   spread_over_tiers(placement, units, world, {.optimizer = {.host = 0.6, .disk = 0.4}});
//
// place() turns a stage into a Placement. Schedules, bytes to hold and to send, and the engine's steps depend only on
// the Placement. Code reads the stage's number only before that, to check or choose options: some need stage 3, and
// `zero plan` compares stages. Text for the user also has it: errors, tables, reports, the papers' formulas.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/base/numbers/wire_codec.h"
#include "zero/plan/units/tier_split.h"
#include "zero/plan/units/unit.h"

namespace zero {

// When gradients are reduced over ranks: after each micro-batch, or once after a local sum. The two add in different
// orders, so kAuto is kEach at every stage: all stages have the same bits (docs/decisions/0018).
enum class Reduce : std::uint8_t { kAuto, kEach, kLast };

// Who sums gradients over ranks. kLinked: the library that moves units between devices (NCCL), in the gradients' type
// and in its own order. The bits then depend on that library, and on the number and wiring of the devices.
enum class RankSums : std::uint8_t { kOrdered, kLinked };

// The user's request: the tiers of each state of every unit. `optimizer`: the moments, and the master if there is one.
struct StateFractions {
  TierFractions parameter, gradient, optimizer;
  bool on_device() const { return parameter.on_device() && gradient.on_device() && optimizer.on_device(); }
  bool operator==(const StateFractions&) const = default;
};

// The tiers of one unit's states, in elements of the part that this rank holds.
struct UnitTiers {
  TierSplit parameter, gradient, optimizer;
  bool operator==(const UnitTiers&) const = default;
};

struct Placement {
  bool parameter_sharded = false;
  bool gradient_sharded = false;
  bool optimizer_sharded = false;  // moments, and the master if there is one
  bool reduce_each = false;        // reduce after each micro-batch; no difference with one micro-batch
  int accumulate = 1;
  bool delayed_update = false;   // each gradient is held for one more step, and applied in that step
  std::vector<UnitTiers> tiers;  // tiers of each unit; empty: everything is on the device
  bool fp32_sums = false;        // sums of bf16 gradients stay in fp32, and are applied in fp32
  int copies = 1;                // copies of the model (mesh.h) over which each gradient is summed
  int merged_copies = 1;         // copies that train apart, and that outer steps merge; 1: none
  int outer_fragments = 1;       // with merged_copies: parts of the model that have outer steps at different times
  bool outer_overlap = false;    // outer sums of a fragment are exchanged while the copies compute
  WireCodecs wire;               // codecs of the elements that cross between ranks
  int secondary_group = 0;       // ranks that together keep all weights within a step (secondary.h); 0: no group
  bool linked = false;           // units move from device to device (NCCL), and sums need staging memory on the device
  bool device_is_apart = false;  // the device has its own memory, so sums over copies use main memory
  RankSums sums = RankSums::kOrdered;
  bool updated_elsewhere = false;  // this rank holds no optimizer state and no master, because other ranks do
  int leaves = 0;                  // of a step, summed in a tree (leaves.h); 0: micro-batches are summed in their order
  // Returns whether gradients are summed over micro-batches in fp32, whatever the parameter's type.
  bool fp32_gradient() const { return accumulate > 1 || fp32_sums; }
  // Returns whether the fp32 sum is then rounded to that type, once.
  bool rounds_gradient(DType dtype) const { return dtype != DType::kFloat32 && accumulate > 1 && !fp32_sums; }
  // Returns the gradients of a unit that a rank holds: with a delayed update also that of the step before.
  int num_gradients() const { return delayed_update ? 2 : 1; }
  // Returns the partial sums of leaves that a rank holds beside its gradient. They are of its shard, or of the whole
  // unit if it sums micro-batches before they are reduced. They are fp32 and on the device.
  int num_partial_sums() const;
  // Returns whether leaves are summed on the rank before they are reduced.
  bool sums_leaves_here() const { return leaves > 0 && !reduce_each; }
  bool operator==(const Placement&) const = default;
};

// Returns the type of a unit's gradients between ranks.
inline DType wire_dtype(const Placement& placement, const Unit& unit) {
  return placement.sums_leaves_here() ? DType::kFloat32 : unit.dtype;
}

// Makes a placement with everything on the device. Throws ConfigError under "zero.stage" (0, 1, 2, 3),
// "train.accumulate" (>= 1) and "zero.delayed_update" (which needs sharded gradients).
Placement place(int stage, Reduce reduce, int accumulate, bool delayed_update = false);

// Returns the placement at another stage, with everything on the device: the sharded states and the time of reductions
// change, all else stays. Throws as place().
Placement at_stage(Placement placement, int stage);

// Fills placement.tiers. Only shards can leave the device: parameters need stage 3; gradients need stage 2 and a
// reduction after each micro-batch. Throws ConfigError under "zero.parameter", "zero.gradient" or "zero.optimizer".
void spread_over_tiers(Placement& placement, const std::vector<Unit>& units, int world,
                       const StateFractions& fractions);

// Moves all states that may leave the device to one other tier.
Placement away_from_device(Placement placement, const std::vector<Unit>& units, int world, Tier to);

// Returns the tiers of the states of `unit`; everything is on the device if placement.tiers is empty.
UnitTiers tiers_of(const Placement& placement, const Unit& unit, int world);

}  // namespace zero
