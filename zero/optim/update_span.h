// UpdateSpan: the memory that one update touches; UpdateScalars: the numbers of that update.
//
//   UpdateSpan span{.parameter = weights, .gradient = bytes, .states = {exp_avg, exp_avg_sq}, .numel = 1024};
//   rule->update(span.part(512, 512), {.step = 1, .lr = 3e-4, .gradient_scale = clip / divisor, .weight_decay = 0.1});
//
// Values; Local.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zero/base/dtype.h"
#include "zero/device/device.h"
#include "zero/optim/eight_bit_code.h"

namespace zero {

constexpr std::size_t kMostOwnStates = 4;                // of a rule
constexpr std::size_t kMostStates = kMostOwnStates + 3;  // with those of what wraps it: an average, or an outer step

// What one update touches: numel elements of each, aligned as their type asks and no further; no two overlap. States
// that the rule does not have are null; those it has start as zeros.
struct UpdateSpan {
  float* parameter = nullptr;           // fp32: the parameter itself, or the master copy
  const std::byte* gradient = nullptr;  // of gradient_dtype
  DType gradient_dtype = DType::kFloat32;
  std::array<float*, kMostStates> states{};      // in the order of states_of_elements(); null for those in 8 bits
  std::array<CodedState, kMostStates> coded{};   // of those; the span begins at a block of theirs
  std::byte* low_precision = nullptr;            // written with the rounded parameter when given
  DType low_precision_dtype = DType::kBFloat16;  // of that: bf16 or fp16
  std::int64_t numel = 0;
  std::int64_t first = 0;  // its first element's place in the parameter
  // The parameter's moving average, of with_average() alone, and what it wants of a rule that keeps_average(); null: nothing.
  float* average = nullptr;
  float average_weight = 0;  // of the new parameter: 1 - decay

  // What an update reads and writes of memory.
  std::vector<Access> accesses() const;
  // What a pass reads that writes none of it: add_sums() of a rule.
  std::vector<Access> read_accesses() const;
  Access gradient_access() const;
  // Elements [begin, begin + count) of it; `begin` is a multiple of kCodeBlock where a state is in 8 bits.
  UpdateSpan part(std::int64_t begin, std::int64_t count) const;

  // For rules that go element by element: an element of the gradient; and the last thing to do, the rounded copy.
  float gradient_at(std::int64_t i) const {
    return with_type_of(gradient_dtype, [&]<typename G>(std::type_identity<G>) {
      return to_float(reinterpret_cast<const G*>(gradient)[i]);
    });
  }
  void write_low_precision() const {
    if (low_precision != nullptr)
      convert_elements(reinterpret_cast<const std::byte*>(parameter), DType::kFloat32, low_precision,
                       low_precision_dtype, numel);
  }
};

// Rows are a parameter's first dimension, columns all others together.
struct MatrixShape {
  std::int64_t rows = 0, columns = 0;
};

// The states of a matrix of which a rule keeps a mean square of each row and each column (FactorRule).
struct Factors {
  std::span<const float> row_var, col_var;
  float row_mean = 0;  // of row_var, as the rule wants it
  // In memory of a device, as the two states then are: where that mean lies.
  const float* row_mean_there = nullptr;
};

struct UpdateScalars {
  std::int64_t step = 1;  // counted from 1: bias correction
  double lr = 0;
  double gradient_scale = 1;  // the gradient is multiplied by this before anything else
  double weight_decay = 0;
  // Of a rule that has sums: over the whole parameter, of all ranks; see UpdateRule::add_sums().
  std::span<const double> sums;
  // Of a matrix that is updated as a whole, whose completed directions update() finds as gradient (MatrixRule), and of
  // one with states of rows and columns (FactorRule). Of other parameters no rows.
  MatrixShape matrix{};
  Factors factors{};       // of a FactorRule's matrix: after the step
  std::int64_t numel = 0;  // of the whole parameter
};

}  // namespace zero
