// Estimate: the bytes that a rank will hold and send, from shapes alone. No world is too large: 10,000 ranks take
// microseconds.
//
//   StateBytes bytes = state_bytes(units, world, place(2, Reduce::kAuto, 1), spec_of(rule));
//   bytes.parameter, bytes.moment, bytes.total()
//
// Bytes include the stated padding. The formulas of the ZeRO paper are state_formula_bytes() and sent_formula_bytes():
// the same without padding, as real numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/base/state_spec.h"
#include "zero/plan/placement.h"
#include "zero/plan/unit.h"

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

// On one tier, of a rule that keeps `spec`; scales are on the device, wherever their codes are, and so are states of rows and
// columns, which every rank holds whole. Shards have equal sizes, so that all ranks hold as much; but for Cut::kWeighted,
// where the bytes are those of the rank that sees `units` so (as_seen_by()).
StateBytes state_bytes(const std::vector<Unit>& units, int world, const Placement& placement, const OptimizerSpec& spec,
                       Tier tier);
// On all tiers.
StateBytes state_bytes(const std::vector<Unit>& units, int world, const Placement& placement,
                       const OptimizerSpec& spec);

// How often the ranks of a copy gather and reduce a unit in a step.
struct StepCollectives {
  int gathers = 0;
  int reductions = 0;
  int part_gathers = 0;  // among the ranks of a secondary group alone
};
StepCollectives collectives_of(const Unit& unit, const Placement& placement);

// Bytes that a rank sends in one gather of a unit: its shard, to each of the others. And in one reduction: all shards but
// its own.
std::int64_t gather_bytes(const Unit& unit, int world, WireCodec codec);
std::int64_t reduction_bytes(const Unit& unit, int world, WireCodec codec);

// Bytes that a rank sends in a step whose forward and backward pass access each unit once; at stage 3 in the minimum
// budget. What ranks exchange for the updates of matrices counts, too: update_sent_bytes().
std::int64_t sent_bytes(const std::vector<Unit>& units, int world, const Placement& placement);
// Of these, what crosses among the ranks of a secondary group alone.
std::int64_t part_sent_bytes(const std::vector<Unit>& units, int world, const Placement& placement);
// As real numbers, in a step in the minimum budget: what `numel` parameters send among the ranks of a secondary group, which
// is (2K-1)P(M-1)/M elements for K micro-batches and M ranks; 0 without such groups.
double part_formula_bytes(std::int64_t numel, const Placement& placement, DType dtype);

// Bytes per rank of `numel` parameters by the paper's formulas: 16P, 4P + 12P/N, 2P + 14P/N, 16P/N for bf16 with fp32
// master and Adam; 16P, 8P + 8P/N, 4P + 12P/N, 16P/N for fp32.
// `matrices`: they are of Unit::matrices(); states of rows and columns (factor_bytes()) come on top.
double state_formula_bytes(std::int64_t numel, int world, int stage, DType dtype, const OptimizerSpec& spec,
                           bool matrices = false);

// Bytes sent per rank and step, of `numel` parameters. Elements: 2P(N-1)/N at stages 0 to 2, 3P(N-1)/N at stage 3; with K
// micro-batches (K+1)P(N-1)/N and 3KP(N-1)/N if each is reduced, 2P(N-1)/N and (2K+1)P(N-1)/N if they are reduced once, after
// the last. With secondary groups of M ranks P(N-1)/N elements are gathered, and (2K-1)P(M-1)/M within a group. An element crosses in
// its own bytes or, coded, in 1 + 4/256 (int8) or 1/2 + 4/256 (int4).
double sent_formula_bytes(std::int64_t numel, int world, const Placement& placement, DType dtype);

// Bytes that cross to other copies of the model per rank and step, in the mean over copies: 2 b (P/S)(R-1)/R for R copies
// of S ranks and b bytes an element (4, or a codec's), as often as gradients are reduced.
double sent_between_copies_formula_bytes(std::int64_t numel, int shard, const Placement& placement);

// Whether ranks gather the directions of a unit in its update: of matrices that are updated as wholes, where the optimizer's
// states are sharded and a shard ends within a matrix. Where each matrix has one owner, that rank directs all of it.
bool gathers_directions(const Unit& unit, int world, const Placement& placement);

// What a rank sends for the update of a unit of matrices in a step; 0 of other units. Of matrices that are updated as wholes
// their directions in fp32, where they are gathered; of factored ones the sums of squares of rows and columns. And as the
// formula, of P parameters in matrices with F rows and columns: 4P(N-1)/N bytes, or 200F(N-1)/N.
std::int64_t update_sent_bytes(const Unit& unit, int world, const Placement& placement);
double update_sent_formula_bytes(const Unit& unit, int world, const Placement& placement);

}  // namespace zero
