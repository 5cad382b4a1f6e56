// RandomSpan: memory for one UpdateSpan with random length and offsets. Many values are special: zeros of both signs,
// subnormals, infinities, NaNs, the largest and the smallest.
//
//   const RandomSpan start(random, /*states=*/2);
//   RandomSpan by_bodies = start, by_highway = start;
//   EXPECT_TRUE(by_bodies == by_highway);            // bit by bit; a NaN equals any NaN
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "zero/optim/rule/update_rule.h"

namespace zero {

using Random = std::mt19937_64;

inline int drawn(Random& random, int below) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(below));
}

// One in `special_in` values is special; 0: none.
inline float random_value(Random& random, int special_in = 40) {
  using Limits = std::numeric_limits<float>;
  constexpr std::array kSpecial{0.0F,
                                -0.0F,
                                Limits::infinity(),
                                -Limits::infinity(),
                                Limits::quiet_NaN(),
                                Limits::denorm_min(),
                                -1e-40F,
                                Limits::min(),
                                Limits::max(),
                                -Limits::max(),
                                65520.0F,
                                6e-8F,
                                1.00390625F,
                                1e-20F,
                                -1e20F};
  if (special_in > 0 && drawn(random, special_in) == 0) return kSpecial[random() % kSpecial.size()];
  const std::uint64_t bits = random();
  const float fraction = static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31F;
  return std::ldexp(fraction, -static_cast<int>(bits >> 32 & 31) / 2);
}

// `count` values that begin at an address with only the alignment of their type.
template <typename T>
class Elements {
 public:
  Elements(Random& random, std::size_t count) : offset_(random() % 16), values_(offset_ + count) {}
  T* data() { return values_.data() + offset_; }
  const T* data() const { return values_.data() + offset_; }
  std::size_t size() const { return values_.size() - offset_; }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(data()); }

 private:
  std::size_t offset_;
  std::vector<T> values_;
};

inline Elements<float> random_floats(Random& random, std::size_t count, int special_in = 40) {
  Elements<float> values(random, count);
  for (std::size_t i = 0; i < count; ++i) values.data()[i] = random_value(random, special_in);
  return values;
}

inline bool same_value(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}
inline bool same_value(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

inline bool same_values(const Elements<float>& a, const Elements<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_value(a.data()[i], b.data()[i])) return false;
  }
  return true;
}

// Elements of a random type.
class TypedElements {
 public:
  TypedElements(Random& random, std::size_t count, int special_in = 40)
      : dtype_(std::array{DType::kFloat32, DType::kBFloat16, DType::kFloat16}[random() % 3]),
        floats_(random_floats(random, count, special_in)),
        halves_(random, count) {
    if (dtype_ == DType::kFloat32) return;
    convert_elements(floats_.bytes(), DType::kFloat32, halves_.bytes(), dtype_, static_cast<std::int64_t>(count));
  }
  DType dtype() const { return dtype_; }
  std::byte* data() { return dtype_ == DType::kFloat32 ? floats_.bytes() : halves_.bytes(); }
  bool operator==(const TypedElements& other) const {
    if (dtype_ == DType::kFloat32) return same_values(floats_, other.floats_);
    for (std::size_t i = 0; i < halves_.size(); ++i) {
      if (!same_value(widened(i), other.widened(i))) return false;
    }
    return true;
  }

 private:
  float widened(std::size_t i) const {
    const std::uint16_t bits = halves_.data()[i];
    return dtype_ == DType::kFloat16 ? to_float(static_cast<Float16Bits>(bits))
                                     : to_float(static_cast<BFloat16Bits>(bits));
  }

  DType dtype_;
  Elements<float> floats_;
  Elements<std::uint16_t> halves_;
};

struct RandomSpan {
  std::size_t numel;
  int num_states;
  Elements<float> parameter, first, second;
  TypedElements gradient, low;  // low in fp32: no low-precision copy

  RandomSpan(Random& random, int states, std::size_t most = 600)
      : numel(random() % (most + 1)),
        num_states(states),
        parameter(random_floats(random, numel)),
        first(random_floats(random, numel)),
        second(random_floats(random, numel)),
        gradient(random, numel),
        low(random, numel) {
    for (std::size_t i = 0; i < numel && drawn(random, 4) != 0; ++i) second.data()[i] = std::fabs(second.data()[i]);
  }

  UpdateSpan span() {
    return {.parameter = parameter.data(),
            .gradient = gradient.data(),
            .gradient_dtype = gradient.dtype(),
            .states = {num_states >= 1 ? first.data() : nullptr, num_states >= 2 ? second.data() : nullptr},
            .low_precision = low.dtype() == DType::kFloat32 ? nullptr : low.data(),
            .low_precision_dtype = low.dtype(),
            .numel = static_cast<std::int64_t>(numel)};
  }
  bool operator==(const RandomSpan& other) const {
    return same_values(parameter, other.parameter) && same_values(first, other.first) &&
           same_values(second, other.second) && low == other.low;
  }
};

}  // namespace zero
