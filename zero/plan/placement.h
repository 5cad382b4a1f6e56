// Placement: which state of a unit a rank holds whole and which it holds a shard of.
//
// This is all that "stage" means to the rest of the program: stages are turned into a Placement here and in
// build_schedule, and nobody else asks for the stage's number.
//
//   place(2, Reduce::kAuto, 1) -> parameter whole, gradient sharded, optimizer sharded, reduce each
#pragma once

#include <cstdint>

namespace zero {

// When micro-batches are reduced over ranks: each of them, or once after a local sum (semantics: "Gradients").
enum class Reduce : std::uint8_t { kAuto, kEach, kLast };

struct Placement {
  bool parameter_sharded = false;
  bool gradient_sharded = false;
  bool optimizer_sharded = false;  // moments, and the master copy where there is one
  bool reduce_each = false;        // with one micro-batch both are the same
  int accumulate = 1;
  // Gradients are summed over micro-batches in fp32, whatever the parameter's type.
  bool fp32_gradient() const { return accumulate > 1; }
  bool operator==(const Placement&) const = default;
};

// Throws ConfigError under "zero.stage" (0, 1, 2, 3) and "train.accumulate" (>= 1).
Placement place(int stage, Reduce reduce, int accumulate);

}  // namespace zero
