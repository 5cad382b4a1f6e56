// BlockSum: an exact sum that a block's threads compute in registers, and then add to limbs in the device's memory.
//
//   BlockSum sum;
//   sum.add(term, limbs);                          // each thread adds its term
//   sum.flush(limbs);                              // all threads of the block
//   whole_term(square, ExchangeThreads())          // sixteen threads of a warp: one term of their elements
#pragma once

#include "plugins/cuda/bodies/exact_bodies.h"
#include "plugins/cuda/bodies/terms.h"
#include "plugins/cuda/grid.cuh"

namespace zero::bodies {

constexpr unsigned kAllLanes32 = 0xffffffffU;

struct AtomicAdder {
  __device__ void operator()(std::uint64_t& into, std::uint64_t value) const {
    atomicAdd(reinterpret_cast<unsigned long long*>(&into), static_cast<unsigned long long>(value));
  }
};

struct ExchangeThreads {
  __device__ double operator()(double value, int distance) const {
    return __shfl_xor_sync(kAllLanes32, value, distance);
  }
};

__device__ inline WideSum sum_of_warp(WideSum sum) {
  for (int distance = 16; distance > 0; distance /= 2) {
    sum.add(WideSum::of_words(__shfl_xor_sync(kAllLanes32, sum.word(0), distance),
                              __shfl_xor_sync(kAllLanes32, sum.word(1), distance),
                              __shfl_xor_sync(kAllLanes32, sum.word(2), distance)));
  }
  return sum;
}

class BlockSum {
 public:
  __device__ void add(double term, SumLimbs* limbs) {
    if (!sum_.add(term)) add_term_to(*limbs, term, AtomicAdder());
  }
  __device__ void flush(SumLimbs* limbs) {
    __shared__ std::uint64_t words[kThreads / 32][3];
    const WideSum of_warp = sum_of_warp(sum_);
    sum_ = {};
    if (threadIdx.x % 32 == 0)
      for (int i = 0; i < 3; ++i) words[threadIdx.x / 32][i] = of_warp.word(i);
    __syncthreads();
    if (threadIdx.x == 0) {
      WideSum total;
      for (const auto& word : words) total.add(WideSum::of_words(word[0], word[1], word[2]));
      total.add_to(*limbs, AtomicAdder());
    }
    __syncthreads();
  }

 private:
  WideSum sum_;
};

// The two sums of each slice of a table: of a parameter's squares, and of its directions' squares.
struct SumPlaces {
  std::array<SumLimbs*, 16> parameter{}, direction{};
};

// A rule's sums over all tiles of a block.
class TwoSums {
 public:
  __device__ explicit TwoSums(const SumPlaces& places) : places_(places) {}
  // Begins a tile; all threads of the block call it, for consecutive tiles.
  __device__ void begin(std::size_t slice) {
    if (begun_ && slice != slice_) flush();
    slice_ = slice;
    begun_ = true;
  }
  // Adds an element of each thread; threads without an element add zeros.
  __device__ void add(float parameter, float direction) {
    const double of_parameter = whole_term(square_of(parameter), ExchangeThreads());
    const double of_direction = whole_term(square_of(direction), ExchangeThreads());
    if (threadIdx.x % kSumBlock != 0) return;
    parameter_.add(of_parameter, places_.parameter[slice_]);
    direction_.add(of_direction, places_.direction[slice_]);
  }
  __device__ void flush() {
    if (!begun_) return;
    parameter_.flush(places_.parameter[slice_]);
    direction_.flush(places_.direction[slice_]);
  }

 private:
  const SumPlaces& places_;
  BlockSum parameter_, direction_;
  std::size_t slice_ = 0;
  bool begun_ = false;
};

}  // namespace zero::bodies
