#include "zero/optim/rule/column_sums.h"

#include <algorithm>
#include <array>
#include <bit>

#include "zero/base/error/check.h"

namespace zero {
namespace {

constexpr int kHeadroom = 8;  // powers of two above the largest term, for later rows with larger terms
// The largest exponent that ExactSum accepts with room for sums of many, and the smallest that it stores exactly.
constexpr int kHighest = 250, kLowest = -240;

double power_of_two(int exponent) {  // exponent of a normal double
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

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
  if (highest > kHighest || lowest < kLowest || highest - lowest > exponent_range()) return false;
  flush();
  const int exponent = std::min(highest + kHeadroom, lowest + exponent_range());
  if (exponent != exponent_ || grid_.high_start == 0) {
    exponent_ = exponent;
    // exponents at which the sums start
    const int high = exponent + 1 + kind_.row_bits, low = high - kMantissaBits + kind_.row_bits;
    grid_ = {.high_start = power_of_two(high),
             .low_start = 1.5 * power_of_two(low),  // rounding errors have either sign
             .over_high = power_of_two(kMantissaBits - high),
             .over_low = power_of_two(kMantissaBits - low),
             .high_bit = high - kMantissaBits,
             .low_bit = low - kMantissaBits};
  }
  std::ranges::fill(high_, grid_.high_start);
  std::ranges::fill(low_, grid_.low_start);
  num_rows_ = num_rows;
  return true;
}

void ColumnSums::flush() {
  if (num_rows_ == 0) return;
  num_rows_ = 0;
  const int low_bits = grid_.high_bit - grid_.low_bit;
  __extension__ using Wide = __int128;
  // Others wait for the lock, so most of the work is done before it is taken, a few columns at a time.
  constexpr std::size_t kColumns = 64;
  std::array<Wide, kColumns> totals;
  for (std::size_t begin = 0; begin < columns_.size(); begin += kColumns) {
    const std::size_t count = std::min(kColumns, columns_.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t high = 0, low = 0;  // multiples of their grids' units; below 2^52 per lane
      for (std::size_t lane = (begin + i) * lanes_; lane < (begin + i + 1) * lanes_; ++lane) {
        high += static_cast<std::int64_t>((high_[lane] - grid_.high_start) * grid_.over_high);
        low += static_cast<std::int64_t>((low_[lane] - grid_.low_start) * grid_.over_low);
      }
      totals[i] = (static_cast<Wide>(high) << low_bits) + low;  // not negative, because no term is negative
    }
    const std::lock_guard guard(lock_);
    for (std::size_t i = 0; i < count; ++i)
      columns_[begin + i].add_scaled(static_cast<std::uint64_t>(totals[i] >> 64), static_cast<std::uint64_t>(totals[i]),
                                     grid_.low_bit);
  }
}

}  // namespace zero
