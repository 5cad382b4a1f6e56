// multiply(): the product of two fp32 matrices, with the same bits for any number of threads and instruction set.
//
//   out = scale * (left * right) + addend_scale * addend
//
// Each element of left * right is one sum of its terms in ascending order. A term is multiplied and added in one
// operation, which is rounded once (std::fma). Every other operation is rounded by itself. `out` is row-major, and must
// not overlap the inputs. queue_product() does the same in device memory, with the same bits. Local.
#pragma once

#include <cstdint>

#include "zero/base/process/parallel.h"
#include "zero/device/device.h"

namespace zero {

// A strided matrix: element (i, j) is data[i * row_stride + j * column_stride].
struct MatrixView {
  const float* data = nullptr;
  std::int64_t row_stride = 0, column_stride = 1;
  MatrixView transposed() const { return {data, column_stride, row_stride}; }
};

struct MatrixProduct {
  MatrixView left, right;  // rows x inner, inner x columns
  float* out = nullptr;    // rows x columns, row-major
  std::int64_t rows = 0, columns = 0, inner = 0;
  float scale = 1;
  const float* addend = nullptr;  // summand in the layout of `out`; null: none
  float addend_scale = 0;
  // The product and the addend are symmetric, to the last bit because both halves multiply the same terms in the same
  // order. One half is computed, and copied to the other.
  bool symmetric = false;
};

void multiply(const MatrixProduct& product, ThreadTeam& team);

// Runs multiply(). Its arguments are a MatrixProduct with pointers to device memory.
extern const Kernel kMatrixProduct;
void queue_product(Device& device, Lane lane, const MatrixProduct& product);

}  // namespace zero
