// cast_kernel(), add_kernel(), round_kernel(): kernels on elements. Also average_kernel(), exchange_kernel(),
// outer_subtract_kernel(), outer_move_kernel() and mix_kernel() beside the rules.
#pragma once

#include "plugins/cuda/bodies/element_bodies.h"
#include "plugins/cuda/bodies/weight_bodies.h"
#include "plugins/cuda/grid.cuh"

namespace zero::bodies {

__global__ void __launch_bounds__(kThreads) cast_kernel(const __grid_constant__ ElementArguments a) {
  with_element_types(a.from_dtype, a.to_dtype, [&](auto from, auto to) {
    for_each_element(a.numel, [&](std::int64_t i) { cast_element(a, from, to, i); });
  });
}

__global__ void __launch_bounds__(kThreads) add_kernel(const __grid_constant__ ElementArguments a) {
  with_element_types(a.from_dtype, a.to_dtype, [&](auto from, auto to) {
    for_each_element(a.numel, [&](std::int64_t i) { add_element(a, from, to, i); });
  });
}

__global__ void __launch_bounds__(kThreads) round_kernel(const __grid_constant__ ElementArguments a) {
  with_type_of(a.from_dtype,
               [&](auto type) { for_each_element(a.numel, [&](std::int64_t i) { round_element(a, type, i); }); });
}

__global__ void __launch_bounds__(kThreads) average_kernel(const __grid_constant__ AverageArguments a) {
  for_each_element(a.numel, [&](std::int64_t i) { average_element(a, i); });
}

__global__ void __launch_bounds__(kThreads) exchange_kernel(const __grid_constant__ ExchangeArguments a) {
  with_low_type(a.low_precision, a.low_precision_dtype,
                [&](auto low) { for_each_element(a.numel, [&](std::int64_t i) { exchange_element(a, low, i); }); });
}

__global__ void __launch_bounds__(kThreads) outer_subtract_kernel(const __grid_constant__ OuterArguments a) {
  for_each_element(a.numel, [&](std::int64_t i) { outer_subtract_element(a, i); });
}

__global__ void __launch_bounds__(kThreads) outer_move_kernel(const __grid_constant__ OuterArguments a) {
  with_low_type(a.low_precision, a.low_precision_dtype,
                [&](auto low) { for_each_element(a.numel, [&](std::int64_t i) { outer_move_element(a, low, i); }); });
}

__global__ void __launch_bounds__(kThreads) mix_kernel(const __grid_constant__ MixArguments a) {
  with_low_type(a.low_precision, a.low_precision_dtype,
                [&](auto low) { for_each_element(a.numel, [&](std::int64_t i) { mix_element(a, low, i); }); });
}

}  // namespace zero::bodies
