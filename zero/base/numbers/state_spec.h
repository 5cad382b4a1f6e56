// StateSpec: a state that an update rule keeps. OptimizerSpec: the facts of a rule for plans, estimates and memory.
//
//   const OptimizerSpec adam = {.states = {{"exp_avg"}, {"exp_avg_sq"}}};
//   adam.element_bytes()                             // 8: bytes of states per parameter element
//
// A state in 8 bits has a one-byte code per element, and one fp32 scale per block of kCodeBlock elements
// (zero/optim/rule/eight_bit_code.h). The placement decides where codes are, as for all optimizer states. Scales stay
// on the device: at 1/64 byte per element they are too few to fill a disk's pages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace zero {

// The encoding of a state's values.
enum class StateCode : std::uint8_t { kNone, kSigned8, kUnsigned8 };
// Elements that share a scale. Blocks begin at multiples of it in a parameter.
constexpr std::int64_t kCodeBlock = 256;

// The parameters that have the state: all, only matrices that a rule updates as wholes (muon), or all but those.
enum class StateOf : std::uint8_t { kAll, kMatrices, kOthers };

// The granularity of a state's values: an element, or a row or column of a matrix (adafactor). States of rows and
// columns are fp32, and every rank holds them whole on the device.
enum class StatePer : std::uint8_t { kElement, kRow, kColumn };

// A state: a value per updated element, in fp32 or as an 8-bit code, or an fp32 value per row or column of a matrix.
// Values start as zeros. docs/decisions/0065 explains why there are no other types, and no values per block of
// elements.
struct StateSpec {
  std::string name;                   // torch.optim's name: "exp_avg", "exp_avg_sq", "momentum_buffer"
  StateCode code = StateCode::kNone;  // kSigned8, kUnsigned8: stored in 8 bits, but read and saved as fp32
  StateOf of = StateOf::kAll;
  StatePer per = StatePer::kElement;
  // Whether the state belongs to an outer step (zero/optim/outer_step.h), and updates neither read nor write it. Copies
  // that train apart hold the same values, or with `of_copy` each its own.
  bool outer = false;
  bool of_copy = false;
  bool shared() const { return outer && !of_copy; }
  bool coded() const { return code != StateCode::kNone; }
  bool kept_by(bool matrices) const { return of == StateOf::kAll || (of == StateOf::kMatrices) == matrices; }
  // Returns the number of its values for a matrix.
  std::int64_t numel(std::int64_t rows, std::int64_t columns) const {
    return per == StatePer::kRow ? rows : per == StatePer::kColumn ? columns : rows * columns;
  }
  // Returns the bytes of an element (without its share of a scale), a row or a column.
  std::int64_t value_bytes() const { return coded() ? 1 : static_cast<std::int64_t>(sizeof(float)); }
  bool operator==(const StateSpec&) const = default;
};

// Return a rule's states in their order: those with a value per element, and those of rows and columns.
inline std::vector<StateSpec> states_of_elements(std::vector<StateSpec> states) {
  std::erase_if(states, [](const StateSpec& state) { return state.per != StatePer::kElement; });
  return states;
}
inline std::vector<StateSpec> states_of_factors(std::vector<StateSpec> states) {
  std::erase_if(states, [](const StateSpec& state) { return state.per == StatePer::kElement; });
  return states;
}

struct OptimizerSpec {
  std::vector<StateSpec> states = {{"exp_avg"}, {"exp_avg_sq"}};  // states of elements; default: Adam's
  std::vector<StateSpec> factors{};                               // states of rows and columns of a matrix
  // Passes of a step over parameter, gradient and states: two if a rule first needs sums over a whole parameter.
  int num_reads = 1;

  // Returns the bytes of an element of a matrix that is updated as a whole, or of another parameter: the placed states.
  // element_bytes() adds the element's share of the scales.
  std::int64_t value_bytes(bool matrices = false) const {
    std::int64_t bytes = 0;
    for (const StateSpec& state : states) bytes += state.kept_by(matrices) ? state.value_bytes() : 0;
    return bytes;
  }
  // Returns the part of value_bytes() that a step's update does not touch.
  std::int64_t outer_bytes() const {
    std::int64_t bytes = 0;
    for (const StateSpec& state : states) bytes += state.outer ? state.value_bytes() : 0;
    return bytes;
  }
  double element_bytes(bool matrices = false) const {
    return static_cast<double>(value_bytes(matrices)) + static_cast<double>(scale_bytes(kCodeBlock)) / kCodeBlock;
  }
  // Returns the bytes of the row and column states of a matrix.
  std::int64_t factor_bytes(std::int64_t rows, std::int64_t columns) const {
    std::int64_t bytes = 0;
    for (const StateSpec& state : factors) bytes += state.numel(rows, columns) * state.value_bytes();
    return bytes;
  }
  // Returns the bytes of the scales of `numel` elements, a multiple of the grain.
  std::int64_t scale_bytes(std::int64_t numel) const {
    return std::ranges::count_if(states, &StateSpec::coded) * (numel / kCodeBlock) *
           static_cast<std::int64_t>(sizeof(float));
  }
  // Returns the number of elements at whose multiples shards and parameters begin, so a block of codes has one owner.
  std::int64_t grain() const { return std::ranges::any_of(states, &StateSpec::coded) ? kCodeBlock : 1; }
  bool operator==(const OptimizerSpec&) const = default;
};

}  // namespace zero
