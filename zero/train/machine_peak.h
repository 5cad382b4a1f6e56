// The speed of fp32 matrix products on this machine: probe_matmul_flops() of libtorch's, the limit of a training step, and
// probe_newton_schulz_flops() of Muon's, which are zero.cpp's own.
//
//   double peak = probe_matmul_flops();     // FLOP/s of this rank's threads, in some ten milliseconds
//
// A dry product, then the best of five of 512 x 512 x 512 with torch's threads as they are set; on a GPU of 4096 x 4096 x
// 4096, as `train.matmul` says. Of Muon's: the best of three
// directions of 256 x 1024, after a dry one. Local.
#pragma once

#include <c10/core/Device.h>

namespace zero {

double probe_matmul_flops(c10::Device place = c10::Device(c10::DeviceType::CPU));
double probe_newton_schulz_flops(int threads);

}  // namespace zero
