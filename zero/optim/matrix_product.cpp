#include "zero/optim/matrix_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/matrix_product.cpp"
#include <algorithm>
#include <cmath>
#include <vector>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A thread works on a group of columns. What it needs of `right` for some terms of the sums lies packed, in panels of two
// vectors' width; six rows of `left` at a time lie packed beside it. Cuts between terms change no bit: a sum goes on from
// where it was.
constexpr std::size_t kRows = 6;
constexpr std::int64_t kTerms = 256;

// a * b + c, rounded once. Where the instruction set has no such operation, the C library computes it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fused(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  HWY_ALIGN float left[16], right[16], sums[16];
  hn::Store(a, d, left);
  hn::Store(b, d, right);
  hn::Store(c, d, sums);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) sums[i] = std::fma(left[i], right[i], sums[i]);
  return hn::Load(d, sums);
#endif
}

// tile[i][j] += sum over k of left[k][i] * right[k][j], of kRows rows and two vectors' columns.
template <class D>
HWY_INLINE void add_products(D d, std::int64_t terms, const float* HWY_RESTRICT left, const float* HWY_RESTRICT right,
                             float* HWY_RESTRICT tile) {
  const std::size_t lanes = hn::Lanes(d), width = 2 * lanes;
  const auto at = [&](std::size_t row, std::size_t half) { return tile + row * width + half * lanes; };
  auto s00 = hn::LoadU(d, at(0, 0)), s01 = hn::LoadU(d, at(0, 1));
  auto s10 = hn::LoadU(d, at(1, 0)), s11 = hn::LoadU(d, at(1, 1));
  auto s20 = hn::LoadU(d, at(2, 0)), s21 = hn::LoadU(d, at(2, 1));
  auto s30 = hn::LoadU(d, at(3, 0)), s31 = hn::LoadU(d, at(3, 1));
  auto s40 = hn::LoadU(d, at(4, 0)), s41 = hn::LoadU(d, at(4, 1));
  auto s50 = hn::LoadU(d, at(5, 0)), s51 = hn::LoadU(d, at(5, 1));
  for (std::int64_t k = 0; k < terms; ++k, left += kRows, right += width) {
    const auto r0 = hn::LoadU(d, right), r1 = hn::LoadU(d, right + lanes);
    const auto add = [&](std::size_t row, auto& low, auto& high) {
      const auto l = hn::Set(d, left[row]);
      low = fused(d, l, r0, low);
      high = fused(d, l, r1, high);
    };
    add(0, s00, s01);
    add(1, s10, s11);
    add(2, s20, s21);
    add(3, s30, s31);
    add(4, s40, s41);
    add(5, s50, s51);
  }
  const auto store = [&](std::size_t row, auto low, auto high) {
    hn::StoreU(low, d, at(row, 0));
    hn::StoreU(high, d, at(row, 1));
  };
  store(0, s00, s01);
  store(1, s10, s11);
  store(2, s20, s21);
  store(3, s30, s31);
  store(4, s40, s41);
  store(5, s50, s51);
}

// Rows [row, row + kRows) of `left`, terms [first, first + terms): term by term, what lies beyond the matrix as zeros.
HWY_INLINE void pack_left(const MatrixProduct& p, std::int64_t row, std::int64_t first, std::int64_t terms,
                          float* HWY_RESTRICT to) {
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(kRows); ++i) {
    const float* from = p.left.data + (row + i) * p.left.row_stride + first * p.left.column_stride;
    for (std::int64_t k = 0; k < terms; ++k)
      to[k * static_cast<std::int64_t>(kRows) + i] = row + i < p.rows ? from[k * p.left.column_stride] : 0.0F;
  }
}

// Columns [begin, end) of `right`, panel by panel, in each term by term.
HWY_INLINE void pack_right(const MatrixProduct& p, std::int64_t begin, std::int64_t end, std::int64_t first,
                           std::int64_t terms, std::int64_t width, float* HWY_RESTRICT to) {
  for (std::int64_t panel = begin; panel < end; panel += width, to += terms * width) {
    for (std::int64_t k = 0; k < terms; ++k) {
      const float* from = p.right.data + (first + k) * p.right.row_stride + panel * p.right.column_stride;
      for (std::int64_t j = 0; j < width; ++j)
        to[k * width + j] = panel + j < end ? from[j * p.right.column_stride] : 0.0F;
    }
  }
}

// Between `out` and a tile of kRows rows: the sums so far go in, sums or, after the last term, results come out.
struct TilePlace {
  std::int64_t row, column, rows, columns, width;
};

HWY_INLINE void load_tile(const MatrixProduct& p, const TilePlace& at, bool begins, float* HWY_RESTRICT tile) {
  if (begins) {
    std::fill_n(tile, static_cast<std::int64_t>(kRows) * at.width, 0.0F);
    return;
  }
  for (std::int64_t i = 0; i < at.rows; ++i)
    std::copy_n(p.out + (at.row + i) * p.columns + at.column, at.columns, tile + i * at.width);
}

HWY_INLINE void store_tile(const MatrixProduct& p, const TilePlace& at, bool ends, const float* HWY_RESTRICT tile) {
  for (std::int64_t i = 0; i < at.rows; ++i) {
    const std::int64_t place = (at.row + i) * p.columns + at.column;
    const float* const sums = tile + i * at.width;
    if (!ends) {
      std::copy_n(sums, at.columns, p.out + place);
    } else if (p.addend == nullptr) {
      for (std::int64_t j = 0; j < at.columns; ++j) p.out[place + j] = p.scale * sums[j];
    } else {
      for (std::int64_t j = 0; j < at.columns; ++j) {
        const float product = p.scale * sums[j], added = p.addend_scale * p.addend[place + j];
        p.out[place + j] = product + added;
      }
    }
  }
}

// Columns [begin, end) of the product; where it is symmetric, without rows below them.
void multiply_columns_target(const MatrixProduct& p, std::int64_t begin, std::int64_t end) {
  const hn::CappedTag<float, 16> d;
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t panels = (end - begin + width - 1) / width;
  const std::int64_t rows = p.symmetric ? std::min(p.rows, end) : p.rows;
  const std::int64_t most_terms = std::min(kTerms, p.inner);
  std::vector<float> right(static_cast<std::size_t>(panels * width * most_terms));
  std::vector<float> left(kRows * static_cast<std::size_t>(most_terms));
  HWY_ALIGN float tile[kRows * 32];
  for (std::int64_t first = 0; first < p.inner; first += kTerms) {
    const std::int64_t terms = std::min(kTerms, p.inner - first);
    const bool begins = first == 0, ends = first + terms == p.inner;
    pack_right(p, begin, end, first, terms, width, right.data());
    for (std::int64_t row = 0; row < rows; row += static_cast<std::int64_t>(kRows)) {
      pack_left(p, row, first, terms, left.data());
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const std::int64_t column = begin + panel * width;
        const TilePlace at{row, column, std::min<std::int64_t>(kRows, p.rows - row), std::min(width, end - column),
                           width};
        load_tile(p, at, begins, tile);
        add_products(d, terms, left.data(), right.data() + panel * terms * width, tile);
        store_tile(p, at, ends, tile);
      }
    }
  }
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(multiply_columns_target);

void multiply(const MatrixProduct& product, ThreadTeam& team) {
  constexpr std::int64_t kGroupColumns = 128;
  team.for_range(0, product.columns, kGroupColumns, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(multiply_columns_target)(product, begin, end);
  });
  if (!product.symmetric) return;
  constexpr std::int64_t kCopiedRows = 64;
  team.for_range(0, product.rows, kCopiedRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < i; ++j) product.out[i * product.columns + j] = product.out[j * product.columns + i];
    }
  });
}

}  // namespace zero
#endif  // HWY_ONCE
