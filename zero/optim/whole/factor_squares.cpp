#include "zero/optim/whole/factor_squares.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/whole/factor_squares.cpp"
#include <algorithm>

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/base/error/check.h"
#include "zero/base/numbers/element_lanes-inl.h"
#include "zero/optim/lanes/block_terms-inl.h"
#include "zero/optim/lanes/column_sums-inl.h"
#include "zero/optim/lanes/matrix_rows-inl.h"
#include "zero/optim/lanes/square_tiles-inl.h"
#include "zero/optim/rule/column_sums.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Squares that are kept in a core's first cache until they are added: four rows of 1,024 columns.
constexpr std::size_t kMostSquares = 4096;
constexpr std::size_t kAhead = 1024;  // distance of prefetches of the gradient, in elements

// A chunk's squares, and the bits of the largest and of the smallest nonzero square.
class Squares {
 public:
  template <class G>
  HWY_INLINE void take(const G* HWY_RESTRICT gradient, float scale, std::size_t numel, std::size_t readable) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<std::uint32_t, decltype(d)> du;
    const std::size_t lanes = hn::Lanes(d);
    auto most = hn::Zero(du), before_least = hn::Set(du, ~0U);
    std::size_t i = 0;
    for (; i + lanes <= numel; i += lanes) {
      hwy::Prefetch(gradient + std::min(i + kAhead, readable - 1));
      const auto bits = take_lanes(d, gradient + i, scale, i);
      most = hn::Max(most, bits);
      before_least = hn::Min(before_least, hn::Sub(bits, hn::Set(du, 1)));  // wraps zero to the largest number
    }
    most_ = hn::GetLane(hn::MaxOfLanes(du, most));
    before_least_ = hn::GetLane(hn::MinOfLanes(du, before_least));
    for (; i < numel; ++i) {
      const std::uint32_t bits = hn::GetLane(take_lanes(hn::CappedTag<float, 1>(), gradient + i, scale, i));
      most_ = std::max(most_, bits);
      before_least_ = std::min(before_least_, bits - 1);
    }
  }
  const float* at(std::size_t i) const { return values_ + i; }
  std::uint32_t most() const { return most_; }
  std::uint32_t least() const { return before_least_ + 1; }

 private:
  template <class D, class G>
  HWY_INLINE hn::Vec<hn::Rebind<std::uint32_t, D>> take_lanes(D d, const G* HWY_RESTRICT gradient, float scale,
                                                              std::size_t i) {
    const hn::Rebind<std::uint32_t, D> du;
    const auto g = hn::Mul(load_lanes(d, gradient), hn::Set(d, scale));
    const auto square = hn::Mul(g, g);
    hn::StoreU(square, d, values_ + i);
    return hn::BitCast(du, hn::Abs(square));  // a NaN may have a sign
  }

  HWY_ALIGN float values_[kMostSquares];
  std::uint32_t most_ = 0, before_least_ = 0;
};

// Adds consecutive squares of one row, one term per block. `at`: index of the first one in the parameter.
HWY_INLINE void add_to_row(const float* HWY_RESTRICT squares, std::size_t at, std::size_t numel, ExactSum& row) {
  if (const std::size_t offset = at % kTermNumel; offset != 0) {
    const std::size_t count = std::min(kTermNumel - offset, numel);
    std::array<float, kTermNumel> block{};
    std::copy_n(squares, count, block.data() + offset);
    row.add(block_term(block.data(), Itself{}));
    squares += count;
    numel -= count;
  }
  for (std::size_t i = 0; i < numel; i += kMostBlocks * kTermNumel) {
    HWY_ALIGN double terms[kMostBlocks];
    const std::size_t num_terms =
        block_terms(squares + i, std::min(kMostBlocks * kTermNumel, numel - i), Itself{}, terms);
    for (std::size_t term = 0; term < num_terms; ++term) row.add(terms[term]);
  }
}

// Collects one row's sum until the next row begins.
class RowSums {
 public:
  RowSums(std::span<ExactSum> rows, std::mutex& lock) : rows_(rows), lock_(lock) {}
  ExactSum& of(std::size_t row) {
    if (row != row_) flush();
    row_ = row;
    return sum_;
  }
  void flush() {
    const std::lock_guard guard(lock_);
    rows_[row_].add(sum_);
    sum_ = {};
  }

 private:
  std::span<ExactSum> rows_;
  std::mutex& lock_;
  std::size_t row_ = 0;
  ExactSum sum_;
};

// Adds whole rows four at a time if the chunk has only whole rows. A column's sums are then loaded and stored once per
// four terms.
HWY_INLINE void add_to_columns(const Squares& squares, std::size_t begin, std::size_t end, std::size_t num_columns,
                               std::size_t first_column, ColumnSums& sums) {
  std::size_t at = begin;
  if (begin % num_columns == 0) {
    for (; at + 4 * num_columns <= end; at += 4 * num_columns)
      add_terms<4>(squares.at(at - begin), num_columns, num_columns, sums.high(), sums.low());
  }
  for_each_row(at, end, num_columns, [&](std::size_t, std::size_t column, std::size_t place, std::size_t count) {
    const std::size_t i = column - first_column;
    add_terms<1>(squares.at(place - begin), count, 0, sums.high() + i, sums.low() + i);
  });
}

// Returns the elements of a chunk that begins at element `begin` of the parameter: whole blocks, and groups of four
// whole rows if they fit.
HWY_INLINE std::size_t chunk_numel(std::size_t begin, std::size_t num_columns) {
  const std::size_t four_rows = 4 * num_columns;
  if (num_columns % kTermNumel == 0 && four_rows <= kMostSquares)
    return begin % num_columns == 0 ? kMostSquares / four_rows * four_rows : num_columns - begin % num_columns;
  constexpr std::size_t kMostRows = ColumnSums::most_rows(kFloatTerms) - 2;  // a partial row may be at both ends
  return std::clamp(kMostRows * num_columns / kTermNumel * kTermNumel, kTermNumel, kMostSquares);
}

template <class G>
void add_squares_of(const UpdateSpan& span, float scale, std::span<ExactSum> rows, std::span<ExactSum> columns,
                    std::mutex& lock) {
  const auto* gradient = reinterpret_cast<const G*>(span.gradient);
  const auto first = static_cast<std::size_t>(span.first), numel = static_cast<std::size_t>(span.numel);
  const std::size_t num_columns = columns.size();
  const ColumnRange touched = columns_of(first, first + numel, num_columns);
  ColumnSums column_sums(kFloatTerms, columns.subspan(touched.first, touched.count), lock);
  RowSums row_sums(rows, lock);
  Squares squares;
  // Adds elements [done, until) of the span, chunk by chunk.
  std::size_t done = 0;
  const auto add_chunks = [&](std::size_t until) HWY_ATTR {
    while (done < until) {
      const std::size_t begin = first + done;
      const std::size_t count = std::min(chunk_numel(begin, num_columns), until - done), end = begin + count;
      squares.take(gradient + done, scale, count, numel - done);
      done += count;
      if (squares.most() == 0) continue;
      for_each_row(begin, end, num_columns, [&](std::size_t row, std::size_t, std::size_t place, std::size_t part) {
        add_to_row(squares.at(place - begin), place, part, row_sums.of(row));
      });
      const auto num_rows = static_cast<int>((end - 1) / num_columns - begin / num_columns + 1);
      if (column_sums.make_room(num_rows, exponent_of(squares.least()), exponent_of(squares.most()))) {
        add_to_columns(squares, begin, end, num_columns, touched.first, column_sums);
      } else {
        const std::lock_guard guard(lock);
        for (std::size_t i = 0; i < count; ++i)
          columns[(begin + i) % num_columns].add(static_cast<double>(*squares.at(i)));
      }
    }
  };
  if (num_columns % kTermNumel == 0) {
    const std::size_t whole = (first + num_columns - 1) / num_columns * num_columns - first;  // the first whole row
    add_chunks(std::min(whole, numel));
    if (done + kTileRows * num_columns <= numel) {
      GroupSums group_sums{rows, columns, column_sums, lock};
      for (; done + kTileRows * num_columns <= numel; done += kTileRows * num_columns)
        add_group(gradient + done, scale, (first + done) / num_columns, group_sums);
    }
  }
  add_chunks(numel);
  row_sums.flush();
}

void add_factor_sums_target(const UpdateSpan& span, float scale, std::span<ExactSum> rows, std::span<ExactSum> columns,
                            std::mutex& lock) {
  with_type_of(span.gradient_dtype,
               [&]<typename G>(std::type_identity<G>) { add_squares_of<G>(span, scale, rows, columns, lock); });
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(add_factor_sums_target);

void add_factor_sums(const UpdateSpan& span, float gradient_scale, std::span<ExactSum> rows,
                     std::span<ExactSum> columns, std::mutex& lock) {
  ZERO_CHECK(span.first % kSumBlock == 0, "a span begins at element {}", span.first);
  if (span.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(add_factor_sums_target)(span, gradient_scale, rows, columns, lock);
}

}  // namespace zero
#endif  // HWY_ONCE
