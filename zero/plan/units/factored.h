// Factored units (Unit::factored): the sizes of their row and column states, and the bytes that ranks exchange for
// them.
//
//   factor_numel(unit)             // rows + columns of its matrices
//   factor_bytes(unit, spec)       // bytes of the states that the rule declares; every rank holds them whole
//   factor_sent_bytes(unit, 4)     // bytes that a rank sends in a step to sum squares over 4 ranks
//
// Values; Local.
#pragma once

#include <cstdint>

#include "zero/base/numbers/exact_sum.h"
#include "zero/base/numbers/state_spec.h"
#include "zero/plan/units/unit.h"

namespace zero {

inline std::int64_t factor_numel(const Slice& slice) {
  return slice.rows == 0 ? 0 : slice.rows + slice.columns();
}

// Returns the rows and columns of all matrices of the unit; 0 if it is not factored.
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

// Returns the number of sums in a rank's block. Each row and column has an exact sum of its squares, and a rank adds up
// one block of these sums over all ranks.
inline std::int64_t factor_block_numel(const Unit& unit, int world) {
  return (factor_numel(unit) + world - 1) / world;
}

// A sum is sent to the rank that adds it, and is returned rounded to a double.
inline constexpr auto kFactorSumBytes = static_cast<std::int64_t>(sizeof(ExactSum) + sizeof(double));

inline std::int64_t factor_sent_bytes(const Unit& unit, int world) {
  return (world - 1) * factor_block_numel(unit, world) * kFactorSumBytes;
}

}  // namespace zero
