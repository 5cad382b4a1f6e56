// cast_element(), add_element(), round_element(): bodies of the kernels in zero/device/element_kernels.h.
//
//   with_element_types(a, [&](auto from, auto to) { add_element(a, from, to, i); });
//
// sum_of_ranks() computes an element of zero/comm/rank_sum.h, without its statistics. Local.
#pragma once

#include <type_traits>

#include "zero/comm/rank_sum.h"
#include "zero/device/element_kernels.h"

#include "plugins/cuda/bodies/rounded.h"

namespace zero::bodies {

template <typename Use>
ZERO_BODY void with_element_types(DType from_dtype, DType to_dtype, Use use) {
  with_type_of(from_dtype, [&]<typename From>(std::type_identity<From> from) {
    with_type_of(to_dtype, [&](auto to) { use(from, to); });
  });
}

template <typename From, typename To>
ZERO_BODY void cast_element(const ElementArguments& a, std::type_identity<From>, std::type_identity<To>,
                            std::int64_t i) {
  reinterpret_cast<To*>(a.to)[i] = rounded_to<To>(to_float(reinterpret_cast<const From*>(a.from)[i]));
}

template <typename From, typename To>
ZERO_BODY void add_element(const ElementArguments& a, std::type_identity<From>, std::type_identity<To>,
                           std::int64_t i) {
  To& to = reinterpret_cast<To*>(a.to)[i];
  to = rounded_to<To>(add(to_float(to), to_float(reinterpret_cast<const From*>(a.from)[i])));
}

template <typename T>
ZERO_BODY void round_element(const ElementArguments& a, std::type_identity<T>, std::int64_t i) {
  float& value = reinterpret_cast<float*>(a.to)[i];
  value = to_float(rounded_to<T>(value));
}

// Writes element i of the sum, and returns the written value; without an output it returns the sum.
template <typename In, typename Out>
ZERO_BODY float sum_of_ranks(const RankSumArguments& a, std::type_identity<In>, std::type_identity<Out>,
                             std::int64_t i) {
  const auto of_rank = [&](std::int32_t rank) { return to_float(reinterpret_cast<const In*>(a.in[rank])[i]); };
  float sum = of_rank(0);
  if (a.onto != nullptr) sum = add(a.onto[i], sum);
  for (std::int32_t rank = 1; rank < a.num_in; ++rank) sum = add(sum, of_rank(rank));
  if (a.out == nullptr) return sum;
  Out& out = reinterpret_cast<Out*>(a.out)[i];
  if (a.accumulate) sum = add(to_float(out), sum);
  out = rounded_to<Out>(sum);
  return to_float(out);
}

}  // namespace zero::bodies
