// UpdateSpan: the memory that one update touches; UpdateScalars: the numbers of that update.
//
//   UpdateSpan span{.parameter = weights, .gradient = bytes, .states = {exp_avg, exp_avg_sq}, .numel = 1024};
//   rule->update(span.part(512, 512), {.step = 1, .lr = 3e-4, .gradient_scale = clip / divisor, .weight_decay = 0.1});
//
// Values; Local.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zero/base/numbers/dtype.h"
#include "zero/base/numbers/state_spec.h"
#include "zero/device/device.h"
#include "zero/optim/rule/eight_bit_code.h"

namespace zero {

constexpr std::size_t kMostOwnStates = 4;                // most states of a rule
constexpr std::size_t kMostStates = kMostOwnStates + 3;  // plus those of its wrapper: an average, or an outer step

// The memory of one update: numel elements of each array, with the alignment of their type; no two overlap. States that
// the rule does not have are null; its own states start as zeros.
struct UpdateSpan {
  float* parameter = nullptr;           // fp32: the parameter itself, or the master
  const std::byte* gradient = nullptr;  // elements of type gradient_dtype
  DType gradient_dtype = DType::kFloat32;
  std::array<float*, kMostStates> states{};      // in the order of states_of_elements(); null for states in 8 bits
  std::array<CodedState, kMostStates> coded{};   // states in 8 bits; the span begins at a block
  std::byte* low_precision = nullptr;            // receives the rounded parameter; null: not written
  DType low_precision_dtype = DType::kBFloat16;  // type of low_precision: bf16 or fp16
  std::int64_t numel = 0;
  std::int64_t first = 0;  // index of its first element in the parameter
  // The parameter's moving average, set by with_average() for a rule that keeps_average(); null: no average.
  float* average = nullptr;
  float average_weight = 0;  // weight of the new parameter: 1 - decay

  // Returns the memory that an update reads and writes.
  std::vector<Access> accesses() const;
  // Returns the memory that a pass without writes reads, such as add_sums().
  std::vector<Access> read_accesses() const;
  Access gradient_access() const;
  // Returns elements [begin, begin + count) of the span. If a state is in 8 bits, `begin` must be a multiple of
  // kCodeBlock.
  UpdateSpan part(std::int64_t begin, std::int64_t count) const;

  // For elementwise rules: returns an element of the gradient. write_low_precision() then writes the rounded copy, as
  // the last action.
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

// A matrix's shape: rows are the parameter's first dimension, columns all others together.
struct MatrixShape {
  std::int64_t rows = 0, columns = 0;
};

// The states of a matrix with a mean square per row and column (FactorRule).
struct Factors {
  std::span<const float> row_var, col_var;
  float row_mean = 0;  // mean of row_var, as the rule needs it
  // Device memory of that mean, if the states are in device memory.
  const float* row_mean_there = nullptr;
};

struct UpdateScalars {
  std::int64_t step = 1;  // number of the step from 1, for bias correction
  double lr = 0;
  double gradient_scale = 1;  // factor of the gradient, applied first
  double weight_decay = 0;
  // Sums over the whole parameter on all ranks, for a rule with sums; see UpdateRule::add_sums().
  std::span<const double> sums;
  // Shape of a matrix that is updated as a whole (MatrixRule) or that has states of rows and columns (FactorRule). With
  // a MatrixRule update() receives completed directions as gradient. Without rows for other parameters.
  MatrixShape matrix{};
  Factors factors{};       // states after the step, of a FactorRule's matrix
  std::int64_t numel = 0;  // elements of the whole parameter
};

// update_grain(): how many elements of a parameter a thread updates at a time.
//
//   team.for_range(0, numel, update_grain(numel, team.size(), by_element), update);
//
// The result is a multiple of kCodeBlock, so a block of codes has only one thread. `by_element`: the rule updates
// elements independently (RuleNeeds::kElements); sixteen threads then share a tile of states that are off the device.
// Other rules are cheaper with long spans: for each span, a thread of Adafactor begins and ends a sum of each column.
// Local.
constexpr std::int64_t update_grain(std::int64_t numel, int num_threads, bool by_element) {
  constexpr std::int64_t kLeastByElement = 1 << 14, kLeast = 1 << 18, kMost = 1 << 20;
  static_assert(kLeastByElement % kCodeBlock == 0 && kLeast % kCodeBlock == 0 && kMost % kCodeBlock == 0);
  return std::clamp(numel / num_threads / kCodeBlock * kCodeBlock, by_element ? kLeastByElement : kLeast, kMost);
}

}  // namespace zero
