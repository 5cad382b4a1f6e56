// Slice: the memory of one span for an update kernel, as a device reads it. load_element(), store_element(): one
// element.
//
//   with_types(slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low>) {
//     Element e = load_element<kStates, G>(slice, rule.gradient_scale(), i);
//     rule(e);
//     store_element<kStates, Low>(slice, e, i);
//   });
//
// Low is float without a rounded copy. Local.
#pragma once

#include <type_traits>

#include "zero/optim/rule/update_span.h"

#include "plugins/cuda/bodies/rounded.h"

namespace zero::bodies {

struct Slice {
  float* parameter = nullptr;
  const std::byte* gradient = nullptr;
  float* first = nullptr;   // state 0
  float* second = nullptr;  // state 1
  std::byte* low = nullptr;
  std::int64_t numel = 0;
  std::int64_t begin = 0;  // index of its first element in the parameter
  DType gradient_dtype = DType::kFloat32;
  DType low_dtype = DType::kBFloat16;
};

inline Slice slice_of(const UpdateSpan& span) {
  return {.parameter = span.parameter,
          .gradient = span.gradient,
          .first = span.states[0],
          .second = span.states[1],
          .low = span.low_precision,
          .numel = span.numel,
          .begin = span.first,
          .gradient_dtype = span.gradient_dtype,
          .low_dtype = span.low_precision_dtype};
}

// A rule's values of one element: the scaled gradient, the parameter, and the rule's states.
struct Element {
  float g = 0, p = 0, first = 0, second = 0;
};

template <int kStates, typename G>
ZERO_BODY Element load_element(const Slice& slice, float gradient_scale, std::int64_t i) {
  Element e;
  e.g = mul(to_float(reinterpret_cast<const G*>(slice.gradient)[i]), gradient_scale);
  e.p = slice.parameter[i];
  if constexpr (kStates >= 1) e.first = slice.first[i];
  if constexpr (kStates >= 2) e.second = slice.second[i];
  return e;
}

template <typename Low>
ZERO_BODY void store_low(std::byte* low, float value, std::int64_t i) {
  if constexpr (!std::is_same_v<Low, float>) reinterpret_cast<Low*>(low)[i] = rounded_to<Low>(value);
}

template <int kStates, typename Low>
ZERO_BODY void store_element(const Slice& slice, const Element& e, std::int64_t i) {
  slice.parameter[i] = e.p;
  if constexpr (kStates >= 1) slice.first[i] = e.first;
  if constexpr (kStates >= 2) slice.second[i] = e.second;
  store_low<Low>(slice.low, e.p, i);
}

// Calls use(std::type_identity<Low>{}).
template <typename Use>
ZERO_BODY void with_low_type(const std::byte* low, DType dtype, Use use) {
  if (low == nullptr) {
    use(std::type_identity<float>{});
  } else if (dtype == DType::kFloat16) {
    use(std::type_identity<Float16Bits>{});
  } else {
    use(std::type_identity<BFloat16Bits>{});
  }
}

template <typename Use>
ZERO_BODY void with_types(const Slice& slice, Use use) {
  with_type_of(slice.gradient_dtype, [&]<typename G>(std::type_identity<G> gradient) {
    with_low_type(slice.low, slice.low_dtype, [&](auto low) { use(gradient, low); });
  });
}

}  // namespace zero::bodies
