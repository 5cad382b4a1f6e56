// Batch: input and target of a micro-batch, without torch: two dense arrays in C order.
//
//   kind          input                       target
//   text, tokens  int64 [batch, context]      int64 [batch, context], the next token at each position
//   mnist         float [batch, features]     int64 [batch], the class
//   csv           float [batch, features]     float [batch, 1]
//   tsv           int64 [batch, context]      int64 [batch], the class
//
// A target equal to kIgnoredTarget does not count: torch's cross_entropy ignores it in sum and mean. Only the last
// window of an evaluation pass has such targets.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace zero {

inline constexpr std::int64_t kIgnoredTarget = -100;

struct Array {
  std::vector<std::int64_t> shape;
  std::variant<std::vector<std::int64_t>, std::vector<float>> values;

  // Sets shape and type, and returns the values, to be written. Memory is reused if it is large enough.
  template <typename T>
  std::vector<T>& reset(std::vector<std::int64_t> new_shape) {
    if (!std::holds_alternative<std::vector<T>>(values)) values = std::vector<T>();
    std::int64_t numel = 1;
    for (const std::int64_t size : new_shape) numel *= size;
    shape = std::move(new_shape);
    auto& typed = std::get<std::vector<T>>(values);
    typed.resize(static_cast<std::size_t>(numel));
    return typed;
  }
};

struct Batch {
  Array input;
  Array target;
};

}  // namespace zero
