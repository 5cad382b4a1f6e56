// newton_schulz(): the matrix that Muon steps along: a direction with all its singular values made about 1, by
// Newton-Schulz iterations (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024).
//
//   std::vector<float> workspace(newton_schulz_numel(rows, columns));
//   newton_schulz({}, direction, rows, columns, workspace, team);      // in place
//
//   X = M / max(|M|, eps)                          |M|: the Frobenius norm; X has no more rows than columns: else M's transpose
//   A = X X^T,  B = b A + c A A,  X = a X + B X    `steps` times
//
// As torch.optim.Muon has it, but in fp32. Each element of a product is one sum, term after term in rising order
// (matrix_product.h), and the norm's squares are added exactly (ExactSum): the same bits for any number of threads, on every
// instruction set and on every device. queue_newton_schulz() queues the same over memory of a device. Local.
#pragma once

#include <cstdint>
#include <span>

#include "zero/base/parallel.h"
#include "zero/device/device.h"

namespace zero {

// The coefficients raise small singular values fastest; large ones end between about 0.7 and 1.2.
struct NewtonSchulzOptions {
  double a = 3.4445, b = -4.7750, c = 2.0315;
  double eps = 1e-7;
  int steps = 5;
};

// Floats that newton_schulz() works with beside the matrix: rows * columns + 2 * min(rows, columns)^2, to the next multiple of
// 64, and 64 more, where a device keeps the norm.
std::int64_t newton_schulz_numel(std::int64_t rows, std::int64_t columns);

// Additions and multiplications: steps * (3 m^2 n + m^3), where m is the smaller of rows and columns, and n the larger.
double newton_schulz_flops(std::int64_t rows, std::int64_t columns, int steps = NewtonSchulzOptions{}.steps);

// `matrix`: rows * columns elements, row by row. Its contents are replaced.
void newton_schulz(const NewtonSchulzOptions& options, float* matrix, std::int64_t rows, std::int64_t columns,
                   std::span<float> workspace, ThreadTeam& team);

// `matrix` and `workspace` lie on the device, the workspace at a multiple of 8 bytes. They are touched in `lane` alone, and the
// host waits for nothing.
void queue_newton_schulz(Device& device, Lane lane, const NewtonSchulzOptions& options, float* matrix,
                         std::int64_t rows, std::int64_t columns, std::span<float> workspace);

}  // namespace zero
