// for_each_row(): visits consecutive elements of a matrix row by row. columns_of(): the range of their columns.
//
//   for_each_row(begin, end, num_columns, [&](row, column, at, count) { ... });     // elements [at, at + count)
//   const ColumnRange touched = columns_of(begin, end, num_columns);
//
// A kernel's .cpp includes this file once per target, so it has no #pragma once. Local.
#if defined(ZERO_OPTIM_MATRIX_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZERO_OPTIM_MATRIX_ROWS_INL_H_
#undef ZERO_OPTIM_MATRIX_ROWS_INL_H_
#else
#define ZERO_OPTIM_MATRIX_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

template <class Use>
HWY_INLINE void for_each_row(std::size_t begin, std::size_t end, std::size_t num_columns, Use use) {
  std::size_t row = begin / num_columns, column = begin % num_columns;
  for (std::size_t at = begin; at < end; column = 0, ++row) {
    const std::size_t count = std::min(num_columns - column, end - at);
    use(row, column, at, count);
    at += count;
  }
}

struct ColumnRange {
  std::size_t first, count;
};

// Returns the elements' columns if they are all in one row, else all columns.
HWY_INLINE ColumnRange columns_of(std::size_t begin, std::size_t end, std::size_t num_columns) {
  const std::size_t column = begin % num_columns;
  return column + (end - begin) <= num_columns ? ColumnRange{column, end - begin} : ColumnRange{0, num_columns};
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
