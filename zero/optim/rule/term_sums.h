// TermSums: adds many terms to one ExactSum, several at a time. It is a ColumnSums whose columns are a vector's lanes.
//
//   TermSums sums(parameter);             // an ExactSum; the destructor adds the terms to it
//   add_block_squares(values, numel, sums);       // block_terms-inl.h
//
// Terms are non-negative doubles. The result equals that of ExactSum::add(), bit for bit. Local.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "zero/optim/rule/column_sums.h"

namespace zero {

class TermSums {
 public:
  static constexpr std::size_t kLanes = 4;

  explicit TermSums(ExactSum& sum) : sum_(sum), columns_(kDoubleTerms, lanes_, lock_) {}
  ~TermSums() {
    columns_.flush();
    for (const ExactSum& lane : lanes_) sum_.add(lane);
  }
  TermSums(const TermSums&) = delete;
  TermSums& operator=(const TermSums&) = delete;

  ColumnSums& columns() { return columns_; }
  void add_one(double term) { sum_.add(term); }

 private:
  ExactSum& sum_;
  std::array<ExactSum, kLanes> lanes_{};
  std::mutex lock_;  // uncontended: no other thread uses the lanes
  ColumnSums columns_;
};

}  // namespace zero
