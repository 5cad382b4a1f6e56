// probe_matmul_flops(), probe_completion_seconds(): the speed of matrix products on this machine.
//
//   double peak = probe_matmul_flops();     // FLOP/s in fp32 of this rank's threads, in some ten milliseconds
//   double seconds = probe_completion_seconds(*rule->matrices(), {768, 3072}, threads);      // of one matrix
//
// Local.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "zero/optim/rule/update_rule.h"

namespace zero {

// Measures the speed of libtorch's matrix products, the limit of a training step. After a warm-up product it takes the
// best of five times for 512 x 512 x 512, with torch's current threads. On a GPU each time is of eight queued products
// of 4096 x 4096 x 4096 in `type`; for fp32 with the precision of `train.matmul`.
double probe_matmul_flops(c10::Device place = c10::Device(c10::DeviceType::CPU),
                          c10::ScalarType type = c10::ScalarType::Float);
// Measures the time in which an update rule completes one matrix; the products of Muon are zero.cpp's own. After a
// warm-up it takes the best of two times, or of five if the matrix is small. Rows and columns of a matrix of more than
// 30 GFLOP are halved until it needs less. The time is then multiplied by the ratio of the operations.
double probe_completion_seconds(const MatrixRule& rule, const MatrixShape& matrix, int threads);

}  // namespace zero
