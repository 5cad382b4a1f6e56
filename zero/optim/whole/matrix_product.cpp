#include "zero/optim/whole/matrix_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/whole/matrix_product.cpp"
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A thread computes a group of columns. It packs some terms of `right` into panels of two vectors' width. Rows of
// `left` are read in place if their elements are contiguous; otherwise six rows at a time are copied. Cuts between
// terms change no bit: a sum continues from its previous value.
constexpr std::int64_t kRows = 6;
constexpr std::int64_t kTerms = 256;

// Returns a * b + c, rounded once. Without such an instruction the C library computes it.
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

// Six rows of `left`; row i begins at data + i * stride.
struct LeftRows {
  const float* data;
  std::int64_t stride;
};

// The position of a tile in `out`. A tile starts from the sums so far, and writes sums, or results after the last term.
struct TilePlace {
  std::int64_t row, column, rows, columns;
  bool begins, ends;
};

// Adds products to a tile's sums. `finish` turns the sums of (row, half) into results.
template <class D, class Finish>
HWY_INLINE void add_products(D d, std::int64_t terms, LeftRows rows, const float* HWY_RESTRICT right,
                             const float* begin, std::int64_t begin_stride, float* out, std::int64_t out_stride,
                             Finish finish) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto sum_of = [&](std::int64_t row, std::int64_t half) HWY_ATTR {
    return begin == nullptr ? hn::Zero(d) : hn::LoadU(d, begin + row * begin_stride + half * lanes);
  };
  auto s00 = sum_of(0, 0), s01 = sum_of(0, 1), s10 = sum_of(1, 0), s11 = sum_of(1, 1);
  auto s20 = sum_of(2, 0), s21 = sum_of(2, 1), s30 = sum_of(3, 0), s31 = sum_of(3, 1);
  auto s40 = sum_of(4, 0), s41 = sum_of(4, 1), s50 = sum_of(5, 0), s51 = sum_of(5, 1);
  const float* HWY_RESTRICT l0 = rows.data;
  const float* HWY_RESTRICT l1 = l0 + rows.stride;
  const float* HWY_RESTRICT l2 = l1 + rows.stride;
  const float* HWY_RESTRICT l3 = l2 + rows.stride;
  const float* HWY_RESTRICT l4 = l3 + rows.stride;
  const float* HWY_RESTRICT l5 = l4 + rows.stride;
  for (std::int64_t k = 0; k < terms; ++k, right += 2 * lanes) {
    const auto r0 = hn::LoadU(d, right), r1 = hn::LoadU(d, right + lanes);
    const auto add = [&](float left, auto& low, auto& high) HWY_ATTR {
      const auto l = hn::Set(d, left);
      low = fused(d, l, r0, low);
      high = fused(d, l, r1, high);
    };
    add(l0[k], s00, s01);
    add(l1[k], s10, s11);
    add(l2[k], s20, s21);
    add(l3[k], s30, s31);
    add(l4[k], s40, s41);
    add(l5[k], s50, s51);
  }
  const auto store = [&](std::int64_t row, auto low, auto high) HWY_ATTR {
    hn::StoreU(finish(low, row, std::int64_t{0}), d, out + row * out_stride);
    hn::StoreU(finish(high, row, lanes), d, out + row * out_stride + lanes);
  };
  store(0, s00, s01);
  store(1, s10, s11);
  store(2, s20, s21);
  store(3, s30, s31);
  store(4, s40, s41);
  store(5, s50, s51);
}

// Computes a tile that is completely within `out`.
template <class D>
HWY_INLINE void whole_tile(D d, const MatrixProduct& p, const TilePlace& at, std::int64_t terms, LeftRows left,
                           const float* right) {
  const std::int64_t place = at.row * p.columns + at.column;
  float* const out = p.out + place;
  const float* const begin = at.begins ? nullptr : out;
  const auto scaled = [&](auto sum) HWY_ATTR { return hn::Mul(hn::Set(d, p.scale), sum); };
  if (!at.ends) {
    add_products(d, terms, left, right, begin, p.columns, out, p.columns,
                 [](auto sum, std::int64_t, std::int64_t) HWY_ATTR { return sum; });
  } else if (p.addend == nullptr) {
    add_products(d, terms, left, right, begin, p.columns, out, p.columns,
                 [&](auto sum, std::int64_t, std::int64_t) HWY_ATTR { return scaled(sum); });
  } else {
    const float* const addend = p.addend + place;
    add_products(d, terms, left, right, begin, p.columns, out, p.columns,
                 [&](auto sum, std::int64_t row, std::int64_t column) HWY_ATTR {
                   const auto added = hn::LoadU(d, addend + row * p.columns + column);
                   return hn::Add(scaled(sum), hn::Mul(hn::Set(d, p.addend_scale), added));
                 });
  }
}

// Computes a tile at an edge of `out` in separate memory.
template <class D>
HWY_INLINE void part_of_tile(D d, const MatrixProduct& p, const TilePlace& at, std::int64_t terms, LeftRows left,
                             const float* right) {
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN float tile[kRows * 32];
  std::fill_n(tile, kRows * width, 0.0F);
  for (std::int64_t i = 0; !at.begins && i < at.rows; ++i)
    std::copy_n(p.out + (at.row + i) * p.columns + at.column, at.columns, tile + i * width);
  add_products(d, terms, left, right, tile, width, tile, width,
               [](auto sum, std::int64_t, std::int64_t) HWY_ATTR { return sum; });
  for (std::int64_t i = 0; i < at.rows; ++i) {
    const std::int64_t place = (at.row + i) * p.columns + at.column;
    for (std::int64_t j = 0; j < at.columns; ++j) {
      const float sum = tile[i * width + j], product = at.ends ? p.scale * sum : sum;
      p.out[place + j] = at.ends && p.addend != nullptr ? product + p.addend_scale * p.addend[place + j] : product;
    }
  }
}

// Copies rows [row, row + kRows) of `left`, terms [first, first + terms), row by row, with zeros beyond the matrix.
LeftRows copy_left(const MatrixProduct& p, std::int64_t row, std::int64_t first, std::int64_t terms, float* to) {
  for (std::int64_t i = 0; i < kRows; ++i) {
    const float* const from = p.left.data + (row + i) * p.left.row_stride + first * p.left.column_stride;
    for (std::int64_t k = 0; k < terms; ++k) to[i * terms + k] = row + i < p.rows ? from[k * p.left.column_stride] : 0;
  }
  return {to, terms};
}

// Packs columns [begin, end) of `right`, panel by panel, and term by term within a panel.
template <class D>
HWY_INLINE void pack_right(D d, const MatrixProduct& p, std::int64_t begin, std::int64_t end, std::int64_t first,
                           std::int64_t terms, float* HWY_RESTRICT to) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d)), width = 2 * lanes;
  for (std::int64_t panel = begin; panel < end; panel += width, to += terms * width) {
    const float* from = p.right.data + first * p.right.row_stride + panel * p.right.column_stride;
    const std::int64_t columns = std::min(width, end - panel);
    if (columns == width && p.right.column_stride == 1) {
      for (std::int64_t k = 0; k < terms; ++k, from += p.right.row_stride) {
        hn::StoreU(hn::LoadU(d, from), d, to + k * width);
        hn::StoreU(hn::LoadU(d, from + lanes), d, to + k * width + lanes);
      }
      continue;
    }
    if (columns < width) std::fill_n(to, terms * width, 0.0F);
    for (std::int64_t j = 0; j < columns; ++j, from += p.right.column_stride)
      for (std::int64_t k = 0; k < terms; ++k) to[k * width + j] = from[k * p.right.row_stride];
  }
}

// Computes columns [begin, end) of the product. If it is symmetric, tiles below the diagonal are left out.
void multiply_columns_target(const MatrixProduct& p, std::int64_t begin, std::int64_t end) {
  const hn::CappedTag<float, 16> d;
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t panels = (end - begin + width - 1) / width;
  const std::int64_t rows = p.symmetric ? std::min(p.rows, end) : p.rows;
  const std::int64_t most_terms = std::min(kTerms, p.inner);
  std::vector<float> right(static_cast<std::size_t>(panels * width * most_terms));
  std::vector<float> copied(static_cast<std::size_t>(kRows * most_terms));
  for (std::int64_t first = 0; first < p.inner; first += kTerms) {
    const std::int64_t terms = std::min(kTerms, p.inner - first);
    pack_right(d, p, begin, end, first, terms, right.data());
    for (std::int64_t row = 0; row < rows; row += kRows) {
      const bool all_rows = row + kRows <= p.rows;
      const LeftRows left = all_rows && p.left.column_stride == 1
                                ? LeftRows{p.left.data + row * p.left.row_stride + first, p.left.row_stride}
                                : copy_left(p, row, first, terms, copied.data());
      const std::int64_t skipped = p.symmetric && row > begin ? (row - begin) / width : 0;
      for (std::int64_t panel = skipped; panel < panels; ++panel) {
        const std::int64_t column = begin + panel * width;
        const TilePlace at{.row = row,
                           .column = column,
                           .rows = std::min(kRows, p.rows - row),
                           .columns = std::min(width, end - column),
                           .begins = first == 0,
                           .ends = first + terms == p.inner};
        const float* const packed = right.data() + panel * terms * width;
        if (all_rows && at.columns == width) {
          whole_tile(d, p, at, terms, left, packed);
        } else {
          part_of_tile(d, p, at, terms, left, packed);
        }
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
  // Transposes squares of `out` in the first cache. There, the distance of rows is no power of two.
  constexpr std::int64_t kSide = 32;
  team.for_range(0, product.rows, kSide, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = 0; first < end; first += kSide) {
      std::array<float, kSide * kSide> square;
      const std::int64_t last = std::min(first + kSide, end);
      for (std::int64_t j = first; j < last; ++j)
        for (std::int64_t i = begin; i < end; ++i)
          square[static_cast<std::size_t>((i - begin) * kSide + j - first)] = product.out[j * product.columns + i];
      for (std::int64_t i = begin; i < end; ++i)
        std::copy_n(square.data() + (i - begin) * kSide, std::max<std::int64_t>(0, std::min(last, i) - first),
                    product.out + i * product.columns + first);
    }
  });
}

namespace {

void multiply_alone(const MatrixProduct& product) {
  ThreadTeam alone(1);
  multiply(product, alone);
}

Access reads_of(const MatrixView& view, std::int64_t rows, std::int64_t columns) {
  const std::int64_t count = (rows - 1) * view.row_stride + (columns - 1) * view.column_stride + 1;
  return reads(std::span(view.data, static_cast<std::size_t>(count)));
}

}  // namespace

const Kernel kMatrixProduct = kernel_of<MatrixProduct, &multiply_alone>("matrix_product");

void queue_product(Device& device, Lane lane, const MatrixProduct& p) {
  const auto numel = static_cast<std::size_t>(p.rows * p.columns);
  const std::span<const float> addend(p.addend, p.addend == nullptr ? 0 : numel);
  run(device, lane, kMatrixProduct, p,
      {reads_of(p.left, p.rows, p.inner), reads_of(p.right, p.inner, p.columns), reads(addend),
       writes(std::span(p.out, numel))});
}

}  // namespace zero
#endif  // HWY_ONCE
