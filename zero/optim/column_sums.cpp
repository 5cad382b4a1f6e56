#include "zero/optim/column_sums.h"

#include <algorithm>
#include <cmath>

#include "zero/base/check.h"

namespace zero {
namespace {

constexpr int kHeadroom = 8;  // for rows to come, whose terms are larger
// What an ExactSum takes, with room for sums of many; and what it does not cut off.
constexpr int kHighest = 250, kLowest = -240;

struct Anchors {
  static constexpr int kMantissaBits = 52;
  int high, low;  // exponents of where the sums start
  Anchors(int exponent, int row_bits) : high(exponent + 1 + row_bits), low(high - kMantissaBits + row_bits) {}
  int high_grid() const { return high - kMantissaBits; }
  int low_grid() const { return low - kMantissaBits; }
  double high_start() const { return std::ldexp(1.0, high); }
  double low_start() const { return std::ldexp(1.5, low); }  // what is cut off has either sign
};

}  // namespace

ColumnSums::ColumnSums(TermKind kind, std::span<ExactSum> columns, std::mutex& lock, std::size_t lanes)
    : kind_(kind),
      lanes_(lanes),
      columns_(columns),
      lock_(lock),
      high_(columns.size() * lanes),
      low_(columns.size() * lanes) {
  ZERO_CHECK(lanes >= 1 && lanes <= kMostLanes, "{} lanes of a column", lanes);
}

bool ColumnSums::begin_grid(int num_rows, int lowest, int highest) {
  ZERO_CHECK(num_rows > 0 && num_rows <= most_rows(kind_), "{} rows of terms", num_rows);
  if (highest > kHighest || lowest < kLowest || highest - lowest > window()) return false;
  flush();
  exponent_ = std::min(highest + kHeadroom, lowest + window());
  const Anchors anchors(exponent_, kind_.row_bits);
  std::ranges::fill(high_, anchors.high_start());
  std::ranges::fill(low_, anchors.low_start());
  num_rows_ = num_rows;
  return true;
}

void ColumnSums::flush() {
  if (num_rows_ == 0) return;
  num_rows_ = 0;
  const Anchors anchors(exponent_, kind_.row_bits);
  const double high_start = anchors.high_start(), low_start = anchors.low_start();
  const double over_high_grid = std::ldexp(1.0, -anchors.high_grid());
  const double over_low_grid = std::ldexp(1.0, -anchors.low_grid());
  const int low_bits = anchors.high_grid() - anchors.low_grid();
  __extension__ using Wide = __int128;
  const std::lock_guard guard(lock_);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::int64_t high = 0, low = 0;  // in units of their grids; of a lane below 2^52
    for (std::size_t lane = i * lanes_; lane < (i + 1) * lanes_; ++lane) {
      high += static_cast<std::int64_t>((high_[lane] - high_start) * over_high_grid);
      low += static_cast<std::int64_t>((low_[lane] - low_start) * over_low_grid);
    }
    // Not negative, because no term is.
    const Wide total = (static_cast<Wide>(high) << low_bits) + low;
    columns_[i].add_scaled(static_cast<std::uint64_t>(total), anchors.low_grid());
    columns_[i].add_scaled(static_cast<std::uint64_t>(total >> 64), anchors.low_grid() + 64);
  }
}

}  // namespace zero
