// ColumnSums: exact sums of many columns of terms, where each row brings one term to each column.
//
//   ColumnSums sums(kFloatTerms, columns, lock);          // ExactSums of the columns
//   if (sums.make_room(num_rows, lowest, highest)) add_terms(terms, numel, sums.high(), sums.low());      // column_sums-inl.h
//   sums.flush();                                         // adds to the columns; so does the destructor
//
// A term is a number that is not negative, a float or a double. ExactSum::add() of each would take ten times as long as to
// read it. Here a column is two doubles. The high one starts at a power of two beyond its sum, so that all its additions
// round to one grid; the low one adds what they cut off, exactly, as long as all terms but zeros are within some
// powers of two of the largest. make_room() sees to that, and says false where no grid is fit: then the terms go to the
// ExactSums one by one. Sums are those of ExactSum, bit for bit. While it adds to the columns it holds `lock`: others may add
// to them, too. A column may have several lanes, each with two doubles of its own. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "zero/base/exact_sum.h"

namespace zero {

// Bits of a term, and of the number of terms that a column takes between two flushes. The fewer, the farther apart may
// terms be: 104 - mantissa - 2 rows powers of two.
struct TermKind {
  int mantissa_bits, row_bits;
};
constexpr TermKind kFloatTerms{24, 10}, kDoubleTerms{53, 7};

class ColumnSums {
 public:
  // Column c has the lanes [c * lanes, (c + 1) * lanes), at most kMostLanes.
  ColumnSums(TermKind kind, std::span<ExactSum> columns, std::mutex& lock, std::size_t lanes = 1);
  ~ColumnSums() { flush(); }
  ColumnSums(const ColumnSums&) = delete;
  ColumnSums& operator=(const ColumnSums&) = delete;

  static constexpr std::size_t kMostLanes = 8;
  static constexpr int most_rows(TermKind kind) { return (1 << kind.row_bits) - 1; }
  // For `num_rows` more terms of each lane: exponents of the largest, and of the smallest that is not zero. Sums of terms,
  // exact in double, may be added in the place of terms.
  bool make_room(int num_rows, int lowest, int highest) {
    if (num_rows_ + num_rows > most_rows(kind_) || !holds(lowest, highest))
      return begin_grid(num_rows, lowest, highest);
    num_rows_ += num_rows;
    return true;
  }
  // Whether the grid of the terms so far is fit for such terms, too.
  bool holds(int lowest, int highest) const {
    return num_rows_ > 0 && highest <= exponent_ && lowest >= exponent_ - window();
  }
  // Flushes; the terms to come are of other columns, as many.
  void move_to(std::span<ExactSum> columns) {
    flush();
    columns_ = columns;
  }
  // One of each lane.
  double* high() { return high_.data(); }
  double* low() { return low_.data(); }
  void flush();

 private:
  static constexpr int kMantissaBits = 52;
  // Powers of two between the largest term and the smallest one: a term's lowest bit is on the low grid.
  int window() const { return 2 * kMantissaBits - 2 * kind_.row_bits - kind_.mantissa_bits; }
  bool begin_grid(int num_rows, int lowest, int highest);

  TermKind kind_;
  std::size_t lanes_;
  std::span<ExactSum> columns_;
  std::mutex& lock_;
  std::vector<double> high_, low_;
  int exponent_ = 0;  // terms are below 2^(exponent_ + 1)
  int num_rows_ = 0;  // 0: nothing to flush
  // Of that exponent: where the sums start, and units of their grids.
  struct Grid {
    double high_start = 0, low_start = 0;
    double over_high = 0, over_low = 0;
    int high_bit = 0, low_bit = 0;  // exponents of a unit
  } grid_;
};

// The exponent of a float that is not negative, from its bits; of what is below 2^-126 it is -126, of infinity and NaN 1024.
constexpr int exponent_of(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 23);
  return exponent >= 255 ? 1024 : (exponent > 0 ? exponent : 1) - 127;
}

}  // namespace zero
