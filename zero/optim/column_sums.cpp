#include "zero/optim/column_sums.h"

#include <algorithm>
#include <cmath>

#include "zero/base/check.h"

namespace zero {
namespace {

constexpr int kMantissaBits = 52;
constexpr int kHeadroom = 8;  // for rows to come, whose terms are larger
// What an ExactSum takes, with room for sums of many; and what it does not cut off.
constexpr int kHighest = 250, kLowest = -240;

struct Anchors {
  int high, low;  // exponents of where the sums start
  Anchors(int exponent, int row_bits) : high(exponent + 1 + row_bits), low(high - kMantissaBits + row_bits) {}
  int high_grid() const { return high - kMantissaBits; }
  int low_grid() const { return low - kMantissaBits; }
  double high_start() const { return std::ldexp(1.0, high); }
  double low_start() const { return std::ldexp(1.5, low); }  // what is cut off has either sign
};

}  // namespace

ColumnSums::ColumnSums(TermKind kind, std::span<ExactSum> columns, std::mutex& lock)
    : kind_(kind), columns_(columns), lock_(lock), high_(columns.size()), low_(columns.size()) {}

bool ColumnSums::make_room(int num_rows, int lowest, int highest) {
  ZERO_CHECK(num_rows > 0 && num_rows <= most_rows(kind_), "{} rows of terms", num_rows);
  // A term's lowest bit is on the low grid.
  const int window = 2 * kMantissaBits - 2 * kind_.row_bits - kind_.mantissa_bits;
  const bool fits =
      num_rows_ > 0 && num_rows_ + num_rows <= most_rows(kind_) && highest <= exponent_ && lowest >= exponent_ - window;
  if (!fits) {
    if (highest > kHighest || lowest < kLowest || highest - lowest > window) return false;
    flush();
    exponent_ = std::min(highest + kHeadroom, lowest + window);
    const Anchors anchors(exponent_, kind_.row_bits);
    std::ranges::fill(high_, anchors.high_start());
    std::ranges::fill(low_, anchors.low_start());
  }
  num_rows_ += num_rows;
  return true;
}

void ColumnSums::flush() {
  if (num_rows_ == 0) return;
  num_rows_ = 0;
  const Anchors anchors(exponent_, kind_.row_bits);
  const double high_start = anchors.high_start(), low_start = anchors.low_start();
  const double over_high_grid = std::ldexp(1.0, -anchors.high_grid());
  const double over_low_grid = std::ldexp(1.0, -anchors.low_grid());
  __extension__ using Wide = __int128;
  const std::lock_guard guard(lock_);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const auto high = static_cast<std::int64_t>((high_[i] - high_start) * over_high_grid);
    const auto low = static_cast<std::int64_t>((low_[i] - low_start) * over_low_grid);
    // In units of the low grid; not negative, because no term is.
    const Wide total = (static_cast<Wide>(high) << (anchors.high_grid() - anchors.low_grid())) + low;
    if (total == 0) continue;
    columns_[i].add_scaled(static_cast<std::uint64_t>(total), anchors.low_grid());
    columns_[i].add_scaled(static_cast<std::uint64_t>(total >> 64), anchors.low_grid() + 64);
  }
}

}  // namespace zero
