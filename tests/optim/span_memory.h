// Memory for one UpdateSpan, filled from a seed, that tests can copy, compare bit by bit and place off any alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "zero/optim/update_rule.h"

namespace zero {

struct SpanMemory {
  DType dtype = DType::kFloat32;
  int num_moments = 2;
  bool with_low_precision = false;
  std::vector<float> parameter, first_moment, second_moment, gradient;
  std::vector<BFloat16Bits> gradient_bfloat16, low_precision;

  SpanMemory(std::int64_t numel, DType gradient_dtype, int moments, bool low, std::uint32_t seed)
      : dtype(gradient_dtype), num_moments(moments), with_low_precision(low) {
    const auto size = static_cast<std::size_t>(numel);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto* values : {&parameter, &first_moment, &second_moment, &gradient}) values->resize(size);
    gradient_bfloat16.resize(size);
    low_precision.resize(size);
    for (std::size_t i = 0; i < size; ++i) {
      parameter[i] = normal(random);
      first_moment[i] = 0.1F * normal(random);
      second_moment[i] = 0.01F * normal(random) * normal(random);
      second_moment[i] *= second_moment[i] < 0 ? -1.0F : 1.0F;
    }
    draw_gradient(random);
  }

  void draw_gradient(std::mt19937& random) {
    std::normal_distribution<float> normal(0.0F, 0.1F);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = normal(random);
      gradient_bfloat16[i] = to_bfloat16(gradient[i]);
    }
  }

  // What the kernel will read for element i.
  float gradient_at(std::size_t i) const {
    return dtype == DType::kFloat32 ? gradient[i] : to_float(gradient_bfloat16[i]);
  }

  // Elements [begin, end).
  UpdateSpan span(std::int64_t begin, std::int64_t end) {
    const auto* bytes = dtype == DType::kFloat32 ? reinterpret_cast<const std::byte*>(gradient.data() + begin)
                                                 : reinterpret_cast<const std::byte*>(gradient_bfloat16.data() + begin);
    return {.parameter = parameter.data() + begin,
            .gradient = bytes,
            .gradient_dtype = dtype,
            .first_moment = num_moments >= 1 ? first_moment.data() + begin : nullptr,
            .second_moment = num_moments >= 2 ? second_moment.data() + begin : nullptr,
            .low_precision = with_low_precision ? low_precision.data() + begin : nullptr,
            .numel = end - begin};
  }
  UpdateSpan span() { return span(0, static_cast<std::int64_t>(parameter.size())); }

  // No NaN is compared (NaN != NaN), and tests make none; +0 and -0 differ in low_precision only.
  bool operator==(const SpanMemory&) const = default;
};

}  // namespace zero
