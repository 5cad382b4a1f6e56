// Estimate: predicts the bytes that a rank will hold and send, from shapes only. 10,000 ranks take microseconds.
//
//   StateBytes bytes = state_bytes(units, world, place(2, Reduce::kAuto, 1), spec_of(rule));
//   bytes.parameter, bytes.moment, bytes.total()
//
// Bytes include padding. state_formula_bytes() and sent_formula_bytes() are the formulas of the ZeRO paper, without
// padding, as real numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/base/numbers/state_spec.h"
#include "zero/plan/units/placement.h"
#include "zero/plan/units/unit.h"

namespace zero {

struct StateBytes {
  std::int64_t parameter = 0;
  std::int64_t gradient = 0;
  std::int64_t master = 0;
  std::int64_t moment = 0;
  std::int64_t total() const { return parameter + gradient + master + moment; }
  StateBytes& operator+=(const StateBytes& other);
  bool operator==(const StateBytes&) const = default;
};

// Returns the bytes on one tier, for a rule with the states in `spec`. Scales are on the device, wherever their codes
// are. States of rows and columns are also on the device, whole on every rank. Shards have equal sizes, so the result
// holds for all ranks. Only with Cut::kWeighted it is that of the rank for which as_seen_by() made `units`.
StateBytes state_bytes(const std::vector<Unit>& units, int world, const Placement& placement, const OptimizerSpec& spec,
                       Tier tier);
// Returns the bytes on all tiers.
StateBytes state_bytes(const std::vector<Unit>& units, int world, const Placement& placement,
                       const OptimizerSpec& spec);

// Returns the part of a unit's gradient bytes that are partial sums of leaves; they are on the device.
std::int64_t partial_sum_bytes(const Unit& unit, int world, const Placement& placement);

// Number of gathers and reductions of a unit in a step, among the ranks of a copy.
struct StepCollectives {
  int gathers = 0;
  int reductions = 0;
  int part_gathers = 0;  // gathers among the ranks of a secondary group
};
StepCollectives collectives_of(const Unit& unit, const Placement& placement);

// Returns the bytes that a rank sends in one collective of a unit. A gather: its shard, to every other rank. A
// reduction: all shards but its own.
std::int64_t gather_bytes(const Unit& unit, int world, WireCodec codec);
std::int64_t reduction_bytes(const Unit& unit, int world, const Placement& placement, WireCodec codec);

// Returns the bytes that a rank sends in a step whose forward and backward pass access each unit once. Stage 3 is under
// the min budget. The exchange for updates of matrices is included (update_sent_bytes()).
std::int64_t sent_bytes(const std::vector<Unit>& units, int world, const Placement& placement);
// Returns the part of sent_bytes() that stays among the ranks of a secondary group.
std::int64_t part_sent_bytes(const std::vector<Unit>& units, int world, const Placement& placement);
// Returns the same for `numel` parameters as a real number, under the min budget. That is (2K-1)P(M-1)/M elements for K
// micro-batches and M ranks; 0 without secondary groups.
double part_formula_bytes(std::int64_t numel, const Placement& placement, DType dtype);

// Returns the bytes per rank of `numel` parameters by the paper's formulas, for stages 0 to 3. bf16 with fp32 master
// and Adam: 16P, 4P + 12P/N, 2P + 14P/N, 16P/N. fp32: 16P, 8P + 8P/N, 4P + 12P/N, 16P/N.
// `matrices`: the parameters are in units with Unit::matrices(). States of rows and columns (factor_bytes()) are not
// included.
double state_formula_bytes(std::int64_t numel, int world, int stage, DType dtype, const OptimizerSpec& spec,
                           bool matrices = false);

// Returns the bytes that a rank sends per step for `numel` parameters. The numbers of elements are:
// - stages 0 to 2: 2P(N-1)/N; with K micro-batches, (K+1)P(N-1)/N if each is reduced, else 2P(N-1)/N
// - stage 3: 3P(N-1)/N; with K micro-batches, 3KP(N-1)/N if each is reduced, else (2K+1)P(N-1)/N
// - secondary groups of M ranks: P(N-1)/N elements are gathered over all ranks, and (2K-1)P(M-1)/M within a group
// An element takes the bytes of its type, or with a codec 1 + 4/256 (int8) or 1/2 + 4/256 (int4).
double sent_formula_bytes(std::int64_t numel, int world, const Placement& placement, DType dtype);

// Returns the mean bytes that a rank sends to other copies of the model per step. One reduction takes 2 b (P/S)(R-1)/R
// for R copies of S ranks, with b bytes per element (4, or the codec's).
double sent_between_copies_formula_bytes(std::int64_t numel, int shard, const Placement& placement);

// Returns whether ranks gather the directions of a unit in its update. They do if matrices are updated as wholes, the
// optimizer's states are sharded, and a shard ends within a matrix. If each matrix has one owner, that rank completes
// its direction by itself.
bool gathers_directions(const Unit& unit, int world, const Placement& placement);

// Returns the bytes that a rank sends for the update of a unit of matrices in a step; 0 for other units. Matrices that
// are updated as wholes send their directions in fp32, if these are gathered. Factored matrices send the sums of
// squares of rows and columns. The formula, for P parameters in matrices with F rows and columns: 4P(N-1)/N or
// 200F(N-1)/N bytes.
std::int64_t update_sent_bytes(const Unit& unit, int world, const Placement& placement);
double update_sent_formula_bytes(const Unit& unit, int world, const Placement& placement);

}  // namespace zero
