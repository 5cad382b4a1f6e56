// newton_schulz(): turns a direction of Muon into a matrix with all singular values near 1, by Newton-Schulz iterations
// (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024).
//
//   std::vector<float> workspace(newton_schulz_numel(rows, columns));
//   newton_schulz({}, direction, rows, columns, workspace, team);      // in place
//
//   X = M / max(|M|, eps)                          |M|: Frobenius norm; if M has more rows than columns: its transpose
//   A = X X^T,  B = b A + c A A,  X = a X + B X    `steps` times
//
// It computes as torch.optim.Muon, but in fp32. Each element of a product is one sum of terms in ascending order
// (matrix_product.h), and the norm's squares are added exactly (ExactSum). So any number of threads, instruction set
// and device gives the same bits. queue_newton_schulz() does the same in device memory. Local.
#pragma once

#include <cstdint>
#include <span>

#include "zero/base/process/parallel.h"
#include "zero/device/device.h"

namespace zero {

// The coefficients raise small singular values fastest; large ones end between about 0.7 and 1.2.
struct NewtonSchulzOptions {
  double a = 3.4445, b = -4.7750, c = 2.0315;
  double eps = 1e-7;
  int steps = 5;
};

// Returns the floats of newton_schulz()'s workspace. These are rows * columns + 2 * min(rows, columns)^2, rounded up to
// a multiple of 64, plus 64 for the norm on a device.
std::int64_t newton_schulz_numel(std::int64_t rows, std::int64_t columns);

// Returns the number of additions and multiplications: steps * (3 m^2 n + m^3), with m = min(rows, columns) and n =
// max(rows, columns).
double newton_schulz_flops(std::int64_t rows, std::int64_t columns, int steps = NewtonSchulzOptions{}.steps);

// Replaces `matrix`: rows * columns elements, row-major.
void newton_schulz(const NewtonSchulzOptions& options, float* matrix, std::int64_t rows, std::int64_t columns,
                   std::span<float> workspace, ThreadTeam& team);

// Queues the same in `lane`. `matrix` and `workspace` are on the device, the workspace at a multiple of 8 bytes. The
// host does not wait.
void queue_newton_schulz(Device& device, Lane lane, const NewtonSchulzOptions& options, float* matrix,
                         std::int64_t rows, std::int64_t columns, std::span<float> workspace);

}  // namespace zero
