// add_group(): adds the squares of eight whole rows of a matrix to exact sums of rows and columns, tile by tile.
//
//   GroupSums sums(rows, columns, column_sums, lock);
//   add_group(gradient, scale, row, sums);       // rows [row, row + kTileRows), whose first element is *gradient
//
// A tile's squares are added while they are in a core's first cache. Usually a tile's largest and smallest square are
// so close that sums of its columns, and of parts of its rows, are exact in double. Then only these sums are added to
// ColumnSums. A row's exact sum does not depend on the tree of its terms, as long as these are exact. Squares of other
// tiles are added one by one to ColumnSums, or to ExactSums if ColumnSums has no room. The number of columns must be a
// multiple of kTermNumel, so no block of the parameter has elements of two rows. A kernel's .cpp includes this file
// once per target, so it has no #pragma once. Local.
#if defined(ZERO_OPTIM_SQUARE_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZERO_OPTIM_SQUARE_TILES_INL_H_
#undef ZERO_OPTIM_SQUARE_TILES_INL_H_
#else
#define ZERO_OPTIM_SQUARE_TILES_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <type_traits>

#include <hwy/highway.h>

#include "zero/base/numbers/element_lanes-inl.h"
#include "zero/optim/lanes/block_terms-inl.h"
#include "zero/optim/lanes/column_sums-inl.h"
#include "zero/optim/lanes/prefetch.h"
#include "zero/optim/rule/column_sums.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kTileRows = 8, kTileColumns = 32;
using TileDoubles = hn::CappedTag<double, ColumnSums::kMostLanes>;

// Returns the lanes of ColumnSums for a row of a tile.
HWY_INLINE std::size_t row_lanes() {
#if !HWY_HAVE_SCALABLE && HWY_MAX_BYTES >= 32
  return hn::Lanes(TileDoubles()) / 4;
#else
  return hn::Lanes(TileDoubles());
#endif
}

// The sums of a span's rows. row_sums moves on eight rows at a time.
struct GroupSums {
  std::span<ExactSum> rows, columns;
  ColumnSums& column_sums;
  std::mutex& lock;
  ColumnSums row_sums{kFloatTerms, rows.first(kTileRows), lock, row_lanes()};
};

// The bits of a tile's largest square and of its smallest nonzero square.
struct SquareRange {
  std::uint32_t least, most;
};

// Computes the squares of kTileRows rows of kWidth columns, row by row.
template <std::size_t kWidth, class G>
HWY_INLINE SquareRange take_tile(const G* HWY_RESTRICT gradient, float scale, std::size_t stride,
                                 float* HWY_RESTRICT squares) {
  const hn::CappedTag<float, kTermNumel> d;
  const hn::Rebind<std::uint32_t, decltype(d)> du;
  auto most = hn::Zero(du), least = hn::Set(du, ~0U);
  for (std::size_t row = 0; row < kTileRows; ++row, gradient += stride) {
    for (std::size_t i = 0; i < kWidth; i += hn::Lanes(d)) {
      const auto g = hn::Mul(load_lanes(d, gradient + i), hn::Set(d, scale));
      const auto square = hn::Mul(g, g);
      hn::StoreU(square, d, squares + row * kWidth + i);
      const auto bits = hn::BitCast(du, square);
      most = hn::Max(most, bits);
      least = hn::Min(least, bits);
    }
  }
  SquareRange range{hn::GetLane(hn::MinOfLanes(du, least)), hn::GetLane(hn::MaxOfLanes(du, most))};
  if (range.least == 0 && range.most != 0) {
    auto before_least = hn::Set(du, ~0U);
    for (std::size_t i = 0; i < kTileRows * kWidth; i += hn::Lanes(d)) {
      const auto bits = hn::BitCast(du, hn::LoadU(d, squares + i));
      before_least = hn::Min(before_least, hn::Sub(bits, hn::Set(du, 1)));  // wraps zero to the largest number
    }
    range.least = hn::GetLane(hn::MinOfLanes(du, before_least)) + 1;
  }
  return range;
}

// Returns sum + x. On processors with separate adders, a fused operation runs beside ordinary additions.
template <class D, class V>
HWY_INLINE V add_elsewhere(D d, V sum, V x) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(x, hn::Set(d, 1), sum);
#else
  (void)d;
  return hn::Add(sum, x);
#endif
}

#if !HWY_HAVE_SCALABLE && HWY_MAX_BYTES >= 32
// Sums the vectors of four rows into the lanes of these rows.
template <class D, class V>
HWY_INLINE V four_rows(D d, V a, V b, V c, V e) {
  const V ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const V ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const V sums = hn::Add(hn::ConcatLowerLower(d, ce, ab), hn::ConcatUpperUpper(d, ce, ab));
  if constexpr (hn::MaxLanes(D()) == 4) return sums;
  alignas(64) static constexpr std::int64_t kPlaces[8] = {0, 2, 1, 3, 4, 6, 5, 7};
  return hn::TableLookupLanes(sums, hn::SetTableIndices(d, kPlaces));
}
#endif

// A tile's sums in double: of each column, and of each row in its lanes.
struct TileSums {
  HWY_ALIGN double columns[kTileColumns];
  HWY_ALIGN double rows[kTileRows * ColumnSums::kMostLanes];
};

// Sums a tile in one pass, with squares only in registers. The caller must decide from the range whether the sums are
// exact.
template <std::size_t kWidth, class G>
HWY_INLINE SquareRange sum_tile(const G* HWY_RESTRICT gradient, float scale, std::size_t stride, TileSums& sums) {
  const TileDoubles d;
  const hn::Rebind<float, TileDoubles> d32;
  const hn::Rebind<std::uint32_t, TileDoubles> du;
  const auto one = hn::Set(du, 1);
  const auto scales = hn::Set(d32, scale);
  auto most = hn::Zero(du), before_least = hn::Set(du, ~0U);  // wraps zero to the largest number
  auto r0 = hn::Zero(d), r1 = r0, r2 = r0, r3 = r0, r4 = r0, r5 = r0, r6 = r0, r7 = r0;
  const std::size_t three = 3 * stride;
  const auto take_columns = [&](std::size_t i, auto asks) HWY_ATTR __attribute__((always_inline)) {
    const auto take = [&](const G* HWY_RESTRICT at, auto& sum) HWY_ATTR __attribute__((always_inline)) {
      if constexpr (asks) prefetch_to_l2(at + kTileRows * stride);  // more rows than the hardware prefetcher tracks
      const auto g = hn::Mul(load_lanes(d32, at), scales);
      const auto square = hn::Mul(g, g);
      const auto bits = hn::BitCast(du, square);
      most = hn::Max(most, bits);
      before_least = hn::Min(before_least, hn::Sub(bits, one));
      const auto x = hn::PromoteTo(d, square);
      sum = add_elsewhere(d, sum, x);
      return x;
    };
    const G* const upper = gradient + i;
    const G* const lower = upper + 4 * stride;
    const auto x01 = hn::Add(take(upper, r0), take(upper + stride, r1));
    const auto x23 = hn::Add(take(upper + 2 * stride, r2), take(upper + three, r3));
    const auto x45 = hn::Add(take(lower, r4), take(lower + stride, r5));
    const auto x67 = hn::Add(take(lower + 2 * stride, r6), take(lower + three, r7));
    hn::StoreU(hn::Add(add_elsewhere(d, x01, x23), add_elsewhere(d, x45, x67)), d, sums.columns + i);
  };
  for (std::size_t i = 0; i < kWidth; i += kTermNumel) {
    take_columns(i, std::true_type());
    for (std::size_t more = hn::Lanes(d); more < kTermNumel; more += hn::Lanes(d))
      take_columns(i + more, std::false_type());
  }
#if !HWY_HAVE_SCALABLE && HWY_MAX_BYTES >= 32
  hn::StoreU(four_rows(d, r0, r1, r2, r3), d, sums.rows);
  hn::StoreU(four_rows(d, r4, r5, r6, r7), d, sums.rows + hn::Lanes(d));
#else
  const auto store_row = [&](std::size_t row, auto sum)
                             HWY_ATTR { hn::StoreU(sum, d, sums.rows + row * hn::Lanes(d)); };
  store_row(0, r0), store_row(1, r1), store_row(2, r2), store_row(3, r3);
  store_row(4, r4), store_row(5, r5), store_row(6, r6), store_row(7, r7);
#endif
  return {hn::GetLane(hn::MinOfLanes(du, before_least)) + 1, hn::GetLane(hn::MaxOfLanes(du, most))};
}

// Adds `numel` sums to the lanes that begin with `at`.
HWY_INLINE void add_to_lanes(const double* HWY_RESTRICT sums, std::size_t numel, ColumnSums& into, std::size_t at) {
  const TileDoubles d;
  for (std::size_t i = 0; i < numel; i += hn::Lanes(d)) {
    auto high = hn::LoadU(d, into.high() + at + i), low = hn::LoadU(d, into.low() + at + i);
    add_term(hn::LoadU(d, sums + i), high, low);
    hn::StoreU(high, d, into.high() + at + i);
    hn::StoreU(low, d, into.low() + at + i);
  }
}

// Adds squares whose range is too wide for exact sums in double; kTileRows rows of `width`.
void add_wide_tile(const float* squares, std::size_t width, std::size_t column, std::span<ExactSum> rows, bool has_room,
                   GroupSums& sums) {
  if (has_room) {
    double* const high = sums.column_sums.high() + column;
    double* const low = sums.column_sums.low() + column;
    add_terms<4>(squares, width, width, high, low);
    add_terms<4>(squares + 4 * width, width, width, high, low);
  }
  const std::lock_guard guard(sums.lock);
  for (std::size_t i = 0; i < kTileRows * width; i += kTermNumel)
    rows[i / width].add(block_term(squares + i, Itself{}));
  for (std::size_t i = 0; !has_room && i < kTileRows * width; ++i)
    sums.columns[column + i % width].add(static_cast<double>(squares[i]));
}

// Adds eight rows that begin at *gradient.
template <class G>
void add_group(const G* HWY_RESTRICT gradient, float scale, std::size_t first_row, GroupSums& sums) {
  const std::size_t stride = sums.columns.size();
  const auto rows = sums.rows.subspan(first_row, kTileRows);
  sums.row_sums.move_to(rows);
  for (ExactSum& row : rows) prefetch_to_l2(&row);  // needed at the end
  // Squares have 24 bits. Sums of a lane's squares of a row must fit into 53 bits, as must sums of eight squares of a
  // column.
  const auto terms = static_cast<int>(kTileColumns / row_lanes());
  const int exact_range = 53 - 24 - std::max(3, static_cast<int>(std::bit_width(static_cast<unsigned>(terms - 1))));
  bool is_counted = false;  // whether column_sums has counted the group's rows
  TileSums tile;
  HWY_ALIGN float squares[kTileRows * kTileColumns];
  const auto has_room = [&](int lowest, int highest) {
    const bool room = (is_counted && sums.column_sums.holds(lowest, highest)) ||
                      sums.column_sums.make_room(kTileRows, lowest, highest);
    is_counted = is_counted || room;
    return room;
  };
  const auto add_tile = [&]<std::size_t kWidth>(std::integral_constant<std::size_t, kWidth>,
                                                std::size_t column) HWY_ATTR {
    const SquareRange range = sum_tile<kWidth>(gradient + column, scale, stride, tile);
    if (range.most == 0) return;
    const int lowest = exponent_of(range.least), highest = exponent_of(range.most);
    const bool room = has_room(lowest, highest);
    if (room && highest - lowest <= exact_range && sums.row_sums.make_room(terms, lowest, highest)) {
      add_to_lanes(tile.columns, kWidth, sums.column_sums, column);
      add_to_lanes(tile.rows, kTileRows * row_lanes(), sums.row_sums, 0);
    } else {
      take_tile<kWidth>(gradient + column, scale, stride, squares);
      add_wide_tile(squares, kWidth, column, rows, room, sums);
    }
  };
  std::size_t column = 0;
  for (; column + kTileColumns <= stride; column += kTileColumns)
    add_tile(std::integral_constant<std::size_t, kTileColumns>(), column);
  if (column < stride) add_tile(std::integral_constant<std::size_t, kTermNumel>(), column);
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
