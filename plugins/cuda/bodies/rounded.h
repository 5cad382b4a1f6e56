// add(), sub(), mul(), div(), root(), fused(): arithmetic of kernel bodies, each rounded once, to nearest.
//
//   ZERO_BODY float step(float p, float g, float lr) { return sub(p, mul(lr, g)); }
//
// ZERO_BODY marks a function that nvcc compiles for host and device, and other compilers for the host. On the device
// the functions are intrinsics that no compiler joins to a fused multiply-add; on the host they are plain operators,
// with -ffp-contract=off. fused() is a fused multiply-add, only for products of matrices, whose sums are also fused on
// the host (zero/optim/whole/matrix_product.h). tools/check_ptx.py verifies this in nvcc's output. Local.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// ZERO_UNROLL before a loop over a thread's elements keeps these in registers.
#ifdef __CUDACC__
#define ZERO_BODY __host__ __device__ inline
#define ZERO_UNROLL _Pragma("unroll")
#else
#define ZERO_BODY inline
#define ZERO_UNROLL
#endif

namespace zero::bodies {

#ifdef __CUDA_ARCH__
ZERO_BODY float add(float a, float b) {
  return __fadd_rn(a, b);
}
ZERO_BODY float sub(float a, float b) {
  return __fsub_rn(a, b);
}
ZERO_BODY float mul(float a, float b) {
  return __fmul_rn(a, b);
}
ZERO_BODY float div(float a, float b) {
  return __fdiv_rn(a, b);
}
ZERO_BODY float root(float a) {
  return __fsqrt_rn(a);
}
ZERO_BODY float fused(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
ZERO_BODY double add(double a, double b) {
  return __dadd_rn(a, b);
}
ZERO_BODY double mul(double a, double b) {
  return __dmul_rn(a, b);
}
ZERO_BODY double div(double a, double b) {
  return __ddiv_rn(a, b);
}
ZERO_BODY double root(double a) {
  return __dsqrt_rn(a);
}
#else
ZERO_BODY float add(float a, float b) {
  return a + b;
}
ZERO_BODY float sub(float a, float b) {
  return a - b;
}
ZERO_BODY float mul(float a, float b) {
  return a * b;
}
ZERO_BODY float div(float a, float b) {
  return a / b;
}
ZERO_BODY float root(float a) {
  return std::sqrt(a);
}
ZERO_BODY float fused(float a, float b, float c) {
  return std::fma(a, b, c);
}
ZERO_BODY double add(double a, double b) {
  return a + b;
}
ZERO_BODY double mul(double a, double b) {
  return a * b;
}
ZERO_BODY double div(double a, double b) {
  return a / b;
}
ZERO_BODY double root(double a) {
  return std::sqrt(a);
}
#endif

ZERO_BODY std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
ZERO_BODY float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
ZERO_BODY bool is_finite(float value) {
  return (bits_of(value) & 0x7f800000U) != 0x7f800000U;
}

}  // namespace zero::bodies
