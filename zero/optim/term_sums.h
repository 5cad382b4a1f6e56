// TermSums: adds many terms to one ExactSum, several at a time. See ColumnSums: here a column is a lane of a vector.
//
//   TermSums sums(parameter);             // an ExactSum, which has the terms when this is destroyed
//   add_block_squares(values, numel, sums);       // block_terms-inl.h
//
// Terms are doubles that are not negative. Sums are those of ExactSum::add(), bit for bit. Local.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "zero/optim/column_sums.h"

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
  std::mutex lock_;  // no other thread has the lanes
  ColumnSums columns_;
};

}  // namespace zero
