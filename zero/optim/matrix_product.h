// multiply(): the product of two fp32 matrices, with the same bits for any number of threads and instruction set.
//
//   out = scale * (left * right) + addend_scale * addend
//
// Each element of left * right is one sum, term after term in rising order; a term is multiplied and added in one
// operation, which is rounded once (std::fma). Every other operation is rounded on its own. `out` is written row by row and
// overlaps nothing that is read. queue_product(): the same over memory of a device, with the same bits. Local.
#pragma once

#include <cstdint>

#include "zero/base/parallel.h"
#include "zero/device/device.h"

namespace zero {

// Element (i, j) lies at data[i * row_stride + j * column_stride].
struct MatrixView {
  const float* data = nullptr;
  std::int64_t row_stride = 0, column_stride = 1;
  MatrixView transposed() const { return {data, column_stride, row_stride}; }
};

struct MatrixProduct {
  MatrixView left, right;  // rows x inner, inner x columns
  float* out = nullptr;    // rows x columns, rows after another
  std::int64_t rows = 0, columns = 0, inner = 0;
  float scale = 1;
  const float* addend = nullptr;  // laid out as `out`; null: none
  float addend_scale = 0;
  // The product and the addend are symmetric, to the last bit, where the same terms are multiplied in the same order: half
  // of it is computed, and copied to the other.
  bool symmetric = false;
};

void multiply(const MatrixProduct& product, ThreadTeam& team);

// Its arguments are a MatrixProduct, whose pointers are addresses on the device.
extern const Kernel kMatrixProduct;
void queue_product(Device& device, Lane lane, const MatrixProduct& product);

}  // namespace zero
