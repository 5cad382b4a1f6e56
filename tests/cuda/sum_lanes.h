// Sixteen: a value in each of sixteen lanes, for the trees of plugins/cuda/bodies/terms.h. Also the work of a group of
// sixteen threads on a block.
#pragma once

#include <array>

#include "plugins/cuda/bodies/exact_bodies.h"
#include "plugins/cuda/bodies/terms.h"

namespace zero {

struct Sixteen {
  std::array<double, 16> lane{};
};

inline Sixteen add(const Sixteen& a, const Sixteen& b) {
  Sixteen sum;
  for (std::size_t i = 0; i < 16; ++i) sum.lane[i] = bodies::add(a.lane[i], b.lane[i]);
  return sum;
}

struct ExchangeLanes {
  Sixteen operator()(const Sixteen& value, std::size_t distance) const {
    Sixteen exchanged;
    for (std::size_t i = 0; i < 16; ++i) exchanged.lane[i] = value.lane[i ^ distance];
    return exchanged;
  }
};

struct PlainAdder {
  void operator()(std::uint64_t& into, std::uint64_t value) const { into += value; }
};

// Adds terms as a thread does.
class ThreadSum {
 public:
  explicit ThreadSum(SumLimbs& limbs) : limbs_(limbs) {}
  ~ThreadSum() { wide_.add_to(limbs_, PlainAdder()); }
  ThreadSum(const ThreadSum&) = delete;
  ThreadSum& operator=(const ThreadSum&) = delete;
  void add(double term) {
    if (!wide_.add(term)) bodies::add_term_to(limbs_, term, PlainAdder());
  }

 private:
  SumLimbs& limbs_;
  bodies::WideSum wide_;
};

// Adds the squares of `value(i)` for elements [0, numel), with one term for each block.
template <typename Value>
void add_squares_of(std::int64_t numel, SumLimbs& limbs, Value value) {
  ThreadSum sum(limbs);
  for (std::int64_t begin = 0; begin < numel; begin += kSumBlock) {
    Sixteen squares;
    for (std::int64_t i = begin; i < numel && i < begin + kSumBlock; ++i)
      squares.lane[static_cast<std::size_t>(i - begin)] = bodies::square_of(value(i));
    sum.add(bodies::whole_term(squares, ExchangeLanes()).lane[0]);
  }
}

inline double value_of(const SumLimbs& limbs) {
  ExactSum sum;
  sum.add(limbs);
  return sum.value();
}

}  // namespace zero
