// StateSpec: a state that an update rule keeps; OptimizerSpec: all that plans, estimates and memory need of a rule.
//
//   const OptimizerSpec adam = {.states = {{"exp_avg"}, {"exp_avg_sq"}}};
//   adam.element_bytes()                             // 8: what a parameter element costs beside itself
//
// A state in 8 bits keeps a code, one byte, for each element, and for each block of kCodeBlock elements one scale of
// fp32 (zero/optim/eight_bit_code.h says what they mean). Codes go where the placement puts the optimizer's states.
// Scales are 1/64 of a byte for each element, too few to fill pages of a disk: they stay on the device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace zero {

// How a state keeps its values.
enum class StateCode : std::uint8_t { kNone, kSigned8, kUnsigned8 };
// Elements that share a scale. Blocks begin at multiples of it in a parameter.
constexpr std::int64_t kCodeBlock = 256;

// Whose state it is: of every parameter, or, where a rule updates matrices as wholes (muon), of those alone or of the
// others.
enum class StateOf : std::uint8_t { kAll, kMatrices, kOthers };

// What has a value of it: each element; or, of a matrix, each row or each column (adafactor). A state of rows or columns is
// fp32, and every rank holds it whole, on the device.
enum class StatePer : std::uint8_t { kElement, kRow, kColumn };

// A value for each element that is updated, in fp32 or in 8 bits by a code, or an fp32 value for each row or column of a matrix;
// zeros at first. docs/decisions/0065 says why no other type, and nothing for each block of elements.
struct StateSpec {
  std::string name;                   // torch.optim's: "exp_avg", "exp_avg_sq", "momentum_buffer"
  StateCode code = StateCode::kNone;  // another: the values are kept in 8 bits, and read and saved as fp32
  StateOf of = StateOf::kAll;
  StatePer per = StatePer::kElement;
  // Of an outer step (zero/optim/outer_step.h): a step's update neither reads nor writes it. Copies of the model that train
  // apart hold it alike, or, where it is of a copy, each has its own.
  bool outer = false;
  bool of_copy = false;
  bool shared() const { return outer && !of_copy; }
  bool coded() const { return code != StateCode::kNone; }
  bool kept_by(bool matrices) const { return of == StateOf::kAll || (of == StateOf::kMatrices) == matrices; }
  // How many values it has of a matrix.
  std::int64_t numel(std::int64_t rows, std::int64_t columns) const {
    return per == StatePer::kRow ? rows : per == StatePer::kColumn ? columns : rows * columns;
  }
  // Of one element, without its share of a scale; of a row or a column.
  std::int64_t value_bytes() const { return coded() ? 1 : static_cast<std::int64_t>(sizeof(float)); }
  bool operator==(const StateSpec&) const = default;
};

// Of a rule's states, in their order: those with a value for each element, and those of rows and columns.
inline std::vector<StateSpec> states_of_elements(std::vector<StateSpec> states) {
  std::erase_if(states, [](const StateSpec& state) { return state.per != StatePer::kElement; });
  return states;
}
inline std::vector<StateSpec> states_of_factors(std::vector<StateSpec> states) {
  std::erase_if(states, [](const StateSpec& state) { return state.per == StatePer::kElement; });
  return states;
}

struct OptimizerSpec {
  std::vector<StateSpec> states = {{"exp_avg"}, {"exp_avg_sq"}};  // of elements: Adam's
  std::vector<StateSpec> factors{};                               // of rows and columns of a matrix
  // How often a step reads parameter, gradient and states: twice where a rule needs sums over a whole parameter first.
  int num_reads = 1;

  // Of one element, of a matrix that is updated as a whole or of another parameter: what lies where the placement says,
  // and all, with the element's share of the scales.
  std::int64_t value_bytes(bool matrices = false) const {
    std::int64_t bytes = 0;
    for (const StateSpec& state : states) bytes += state.kept_by(matrices) ? state.value_bytes() : 0;
    return bytes;
  }
  // Of these, what a step's update leaves alone.
  std::int64_t outer_bytes() const {
    std::int64_t bytes = 0;
    for (const StateSpec& state : states) bytes += state.outer ? state.value_bytes() : 0;
    return bytes;
  }
  double element_bytes(bool matrices = false) const {
    return static_cast<double>(value_bytes(matrices)) + static_cast<double>(scale_bytes(kCodeBlock)) / kCodeBlock;
  }
  // Of a matrix, the states of its rows and columns.
  std::int64_t factor_bytes(std::int64_t rows, std::int64_t columns) const {
    std::int64_t bytes = 0;
    for (const StateSpec& state : factors) bytes += state.numel(rows, columns) * state.value_bytes();
    return bytes;
  }
  // Scales of `numel` elements, a multiple of the grain.
  std::int64_t scale_bytes(std::int64_t numel) const {
    return std::ranges::count_if(states, &StateSpec::coded) * (numel / kCodeBlock) *
           static_cast<std::int64_t>(sizeof(float));
  }
  // Shards and parameters begin at multiples of this many elements, so that no block of codes has two owners.
  std::int64_t grain() const { return std::ranges::any_of(states, &StateSpec::coded) ? kCodeBlock : 1; }
  bool operator==(const OptimizerSpec&) const = default;
};

}  // namespace zero
