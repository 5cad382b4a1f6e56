// Factored units (Unit::factored): how many states of rows and columns a rank holds, and what the ranks exchange for them.
//
//   factor_numel(unit)             // rows + columns of its matrices
//   factor_bytes(unit, spec)       // of their states, as the rule declares them; every rank holds them whole
//   factor_sent_bytes(unit, 4)     // what a rank sends to sum squares over 4 ranks, in a step
//
// Values; Local.
#pragma once

#include <cstdint>

#include "zero/base/exact_sum.h"
#include "zero/base/state_spec.h"
#include "zero/plan/unit.h"

namespace zero {

inline std::int64_t factor_numel(const Slice& slice) {
  return slice.rows == 0 ? 0 : slice.rows + slice.columns();
}

// 0 of a unit that is not factored.
inline std::int64_t factor_numel(const Unit& unit) {
  std::int64_t numel = 0;
  for (const Slice& slice : unit.slices) numel += unit.factored ? factor_numel(slice) : 0;
  return numel;
}

inline std::int64_t factor_bytes(const Unit& unit, const OptimizerSpec& spec) {
  std::int64_t bytes = 0;
  for (const Slice& slice : unit.slices) bytes += unit.factored ? spec.factor_bytes(slice.rows, slice.columns()) : 0;
  return bytes;
}

// Each row and each column has an exact sum of its squares. A rank adds what all ranks have of a block of these sums.
inline std::int64_t factor_block_numel(const Unit& unit, int world) {
  return (factor_numel(unit) + world - 1) / world;
}

// A sum goes to the rank that adds it, and comes back rounded, as a double.
inline constexpr auto kFactorSumBytes = static_cast<std::int64_t>(sizeof(ExactSum) + sizeof(double));

inline std::int64_t factor_sent_bytes(const Unit& unit, int world) {
  return (world - 1) * factor_block_numel(unit, world) * kFactorSumBytes;
}

}  // namespace zero
