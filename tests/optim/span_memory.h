// SpanMemory: the memory of one UpdateSpan, filled from a seed. Tests can copy it, compare its bits and misalign it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "zero/optim/rule/update_span.h"

namespace zero {

struct SpanMemory {
  DType dtype = DType::kFloat32;
  int num_moments = 2;
  bool with_low_precision = false;  // bf16, or fp16 if the gradient is fp16
  std::vector<float> parameter, first_moment, second_moment, gradient;
  std::vector<std::uint16_t> low_gradient, low_precision;

  SpanMemory(std::int64_t numel, DType gradient_dtype, int moments, bool low, std::uint32_t seed)
      : dtype(gradient_dtype), num_moments(moments), with_low_precision(low) {
    const auto size = static_cast<std::size_t>(numel);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto* values : {&parameter, &first_moment, &second_moment, &gradient}) values->resize(size);
    low_gradient.resize(size);
    low_precision.resize(size);
    for (std::size_t i = 0; i < size; ++i) {
      parameter[i] = normal(random);
      first_moment[i] = 0.1F * normal(random);
      second_moment[i] = 0.01F * normal(random) * normal(random);
      second_moment[i] *= second_moment[i] < 0 ? -1.0F : 1.0F;
    }
    draw_gradient(random);
  }

  DType low_dtype() const { return dtype == DType::kFloat16 ? dtype : DType::kBFloat16; }
  std::uint16_t rounded(float value) const {
    return dtype == DType::kFloat16 ? static_cast<std::uint16_t>(to_float16(value))
                                    : static_cast<std::uint16_t>(to_bfloat16(value));
  }
  float widened(std::uint16_t bits) const {
    return dtype == DType::kFloat16 ? to_float(static_cast<Float16Bits>(bits))
                                    : to_float(static_cast<BFloat16Bits>(bits));
  }

  void draw_gradient(std::mt19937& random) {
    std::normal_distribution<float> normal(0.0F, 0.1F);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = normal(random);
      low_gradient[i] = rounded(gradient[i]);
    }
  }

  // The value that the kernel reads for element i.
  float gradient_at(std::size_t i) const { return dtype == DType::kFloat32 ? gradient[i] : widened(low_gradient[i]); }

  // Elements [begin, end).
  UpdateSpan span(std::int64_t begin, std::int64_t end) {
    const auto* bytes = dtype == DType::kFloat32 ? reinterpret_cast<const std::byte*>(gradient.data() + begin)
                                                 : reinterpret_cast<const std::byte*>(low_gradient.data() + begin);
    return {.parameter = parameter.data() + begin,
            .gradient = bytes,
            .gradient_dtype = dtype,
            .states = {num_moments >= 1 ? first_moment.data() + begin : nullptr,
                       num_moments >= 2 ? second_moment.data() + begin : nullptr},
            .low_precision = with_low_precision ? reinterpret_cast<std::byte*>(low_precision.data() + begin) : nullptr,
            .low_precision_dtype = low_dtype(),
            .numel = end - begin};
  }
  UpdateSpan span() { return span(0, static_cast<std::int64_t>(parameter.size())); }

  // Tests make no NaN, so NaN != NaN is no problem. +0 and -0 differ only in low_precision.
  bool operator==(const SpanMemory&) const = default;
};

}  // namespace zero
