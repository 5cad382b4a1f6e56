// Placement: says which states of a unit a rank holds whole, which as a shard, and on which tiers they lie.
//
// place() turns a stage into a Placement. Schedules, bytes to hold and to send, and the steps of the engine follow from the
// Placement alone. The stage's number is read before that, where options are checked or chosen (servers need stage 3;
// `zero plan` compares stages), and in words to the user: a refusal, a table, a report, the papers' formulas.
//
//   Placement placement = place(2, Reduce::kAuto, 1);   // parameter whole, gradient and optimizer sharded, reduce each
//   spread_over_tiers(placement, units, world, {.optimizer = {.host = 0.6, .disk = 0.4}});
#pragma once

#include <cstdint>
#include <vector>

#include "zero/base/wire_codec.h"
#include "zero/plan/tier_split.h"
#include "zero/plan/unit.h"

namespace zero {

// When micro-batches are reduced over ranks: each of them, or once after a local sum. The two add in another order, so
// kAuto is kEach at every stage: no stage has other bits than the rest (docs/decisions/0018).
enum class Reduce : std::uint8_t { kAuto, kEach, kLast };

// Who adds gradients of ranks up. kLinked: the library that moves units between devices (NCCL), in the gradients' type and an order of
// its own. Bits then depend on that library, and on the number and the wiring of the devices.
enum class RankSums : std::uint8_t { kOrdered, kLinked };

// What a user asks for: where each state of every unit lies. `optimizer`: the moments, and the master copy where there
// is one.
struct StateFractions {
  TierFractions parameter, gradient, optimizer;
  bool on_device() const { return parameter.on_device() && gradient.on_device() && optimizer.on_device(); }
  bool operator==(const StateFractions&) const = default;
};

// Where the states of one unit lie, in elements of what this rank holds of them.
struct UnitTiers {
  TierSplit parameter, gradient, optimizer;
  bool operator==(const UnitTiers&) const = default;
};

struct Placement {
  bool parameter_sharded = false;
  bool gradient_sharded = false;
  bool optimizer_sharded = false;  // moments, and the master copy where there is one
  bool reduce_each = false;        // with one micro-batch both are the same
  int accumulate = 1;
  bool delayed_update = false;   // each gradient is held for one more step, and applied in that step
  std::vector<UnitTiers> tiers;  // by unit; empty: everything on the device
  bool fp32_sums = false;        // the sum of bf16 gradients stays in fp32, and is applied so
  int copies = 1;                // of the model (mesh.h), over which each gradient is summed
  int merged_copies = 1;         // that train apart instead, and are merged by an outer step; 1: there are none
  int outer_fragments = 1;       // with merged_copies: parts of the model that have outer steps at different times
  bool outer_overlap = false;    // and the sums of one are on their way while the copies compute
  WireCodecs wire;               // of what crosses between ranks
  int secondary_group = 0;       // ranks that keep all weights together within a step (secondary.h); 0: none do
  bool linked = false;           // units cross from device to device (NCCL), and sums take staging there
  bool device_is_apart = false;  // the device has memory of its own: what copies add up lies in main memory
  RankSums sums = RankSums::kOrdered;
  bool updated_elsewhere = false;  // this rank holds no optimizer state and no master: servers do (sync_plan.h)
  // Gradients are summed over micro-batches in fp32, whatever the parameter's type.
  bool fp32_gradient() const { return accumulate > 1 || fp32_sums; }
  // And then rounded to that type, once.
  bool rounds_gradient(DType dtype) const { return dtype != DType::kFloat32 && accumulate > 1 && !fp32_sums; }
  // Gradients of a unit that a rank holds: with a delayed update also the one of the step before.
  int num_gradients() const { return delayed_update ? 2 : 1; }
  bool operator==(const Placement&) const = default;
};

// Everything on the device. Throws ConfigError under "zero.stage" (0, 1, 2, 3), "train.accumulate" (>= 1) and
// "zero.delayed_update" (where gradients are sharded).
Placement place(int stage, Reduce reduce, int accumulate, bool delayed_update = false);

// The same placement at another stage: what it shards changes, and when it reduces; all else stays. Everything on the device.
// Throws as place().
Placement at_stage(Placement placement, int stage);

// Fills placement.tiers. Only a shard can leave the device: parameters need stage 3, gradients stage 2 (and a reduction
// each micro-batch). Throws ConfigError under "zero.parameter", "zero.gradient" or "zero.optimizer".
void spread_over_tiers(Placement& placement, const std::vector<Unit>& units, int world,
                       const StateFractions& fractions);

// Puts all states that may leave the device on one other tier.
Placement away_from_device(Placement placement, const std::vector<Unit>& units, int world, Tier to);

// Where the states of `unit` lie; the whole of them on the device where placement.tiers is empty.
UnitTiers tiers_of(const Placement& placement, const Unit& unit, int world);

}  // namespace zero
