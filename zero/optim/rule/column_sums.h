// ColumnSums: exact sums of many columns; each row adds one term to every column.
//
//   ColumnSums sums(kFloatTerms, columns, lock);          // ExactSums of the columns
//   if (sums.make_room(num_rows, lowest, highest)) add_terms(terms, numel, sums.high(), sums.low());
//   sums.flush();                                         // adds to the columns; so does the destructor
//
// Terms are non-negative floats or doubles. ExactSum::add() for each term would take ten times as long as reading it.
// Here a column is two doubles. The high one starts at a power of two beyond its sum, so all its additions round to one
// grid. The low one adds the rounding errors, exactly if all nonzero terms are within some powers of two of the
// largest. make_room() ensures that; if no grid fits it returns false, and the caller adds each term to an ExactSum.
// The results equal ExactSum's, bit for bit. flush() holds `lock`, because others may add to the columns. A column may
// have several lanes of two doubles. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "zero/base/numbers/exact_sum.h"

namespace zero {

// Bits of a term's mantissa, and of the number of terms per column between two flushes. Fewer bits allow a wider range
// of terms: 104 - mantissa - 2 rows powers of two.
struct TermKind {
  int mantissa_bits, row_bits;
};
constexpr TermKind kFloatTerms{24, 10}, kDoubleTerms{53, 7};

class ColumnSums {
 public:
  // Column c has lanes [c * lanes, (c + 1) * lanes). `lanes` is at most kMostLanes.
  ColumnSums(TermKind kind, std::span<ExactSum> columns, std::mutex& lock, std::size_t lanes = 1);
  ~ColumnSums() { flush(); }
  ColumnSums(const ColumnSums&) = delete;
  ColumnSums& operator=(const ColumnSums&) = delete;

  static constexpr std::size_t kMostLanes = 8;
  static constexpr int most_rows(TermKind kind) { return (1 << kind.row_bits) - 1; }
  // Prepares for `num_rows` more terms per lane. `lowest`, `highest`: exponents of the smallest nonzero term and of the
  // largest. Sums of terms that are exact in double may be added as terms.
  bool make_room(int num_rows, int lowest, int highest) {
    if (num_rows_ + num_rows > most_rows(kind_) || !holds(lowest, highest))
      return begin_grid(num_rows, lowest, highest);
    num_rows_ += num_rows;
    return true;
  }
  // Returns whether the current grid also fits terms of these exponents.
  bool holds(int lowest, int highest) const {
    return num_rows_ > 0 && highest <= exponent_ && lowest >= exponent_ - exponent_range();
  }
  // Flushes, then adds later terms to other columns, of the same number.
  void move_to(std::span<ExactSum> columns) {
    flush();
    columns_ = columns;
  }
  // The sums of all lanes.
  double* high() { return high_.data(); }
  double* low() { return low_.data(); }
  void flush();

 private:
  static constexpr int kMantissaBits = 52;
  // Returns the most powers of two between the largest and the smallest term: every term's lowest bit must be on the
  // low grid.
  int exponent_range() const { return 2 * kMantissaBits - 2 * kind_.row_bits - kind_.mantissa_bits; }
  bool begin_grid(int num_rows, int lowest, int highest);

  TermKind kind_;
  std::size_t lanes_;
  std::span<ExactSum> columns_;
  std::mutex& lock_;
  std::vector<double> high_, low_;
  int exponent_ = 0;  // terms are below 2^(exponent_ + 1)
  int num_rows_ = 0;  // 0: nothing to flush
  // For exponent_: the start of the sums, and the units of their grids.
  struct Grid {
    double high_start = 0, low_start = 0;
    double over_high = 0, over_low = 0;
    int high_bit = 0, low_bit = 0;  // exponents of a unit
  } grid_;
};

// Returns the exponent of a non-negative float from its bits: -126 below 2^-126, 1024 for infinity and NaN.
constexpr int exponent_of(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 23);
  return exponent >= 255 ? 1024 : (exponent > 0 ? exponent : 1) - 127;
}

}  // namespace zero
