// The speed of matrix products on this machine: probe_matmul_flops() of libtorch's, the limit of a training step, and
// probe_completion_seconds() of an update rule's: Muon's are zero.cpp's own.
//
//   double peak = probe_matmul_flops();     // FLOP/s in fp32 of this rank's threads, in some ten milliseconds
//   double seconds = probe_completion_seconds(*rule->matrices(), {768, 3072}, threads);      // of one matrix
//
// A dry product, then the best of five of 512 x 512 x 512 with torch's threads as they are set; on a GPU of 4096 x 4096 x
// 4096 in `type` (eight, one behind the other), fp32 as `train.matmul` says. Of a rule's: the best of two
// matrices of that shape, of five if it is small, after a dry one. Of a matrix of more than 30 GFLOP a half in both directions
// is probed, or a half of that, and so on, and the time is as much longer as its operations are more. Local.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "zero/optim/rule/update_rule.h"

namespace zero {

double probe_matmul_flops(c10::Device place = c10::Device(c10::DeviceType::CPU),
                          c10::ScalarType type = c10::ScalarType::Float);
double probe_completion_seconds(const MatrixRule& rule, const MatrixShape& matrix, int threads);

}  // namespace zero
