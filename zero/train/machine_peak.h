// The speed of fp32 matrix products on this machine: probe_matmul_flops() of libtorch's, the limit of a training step, and
// probe_newton_schulz_flops() of Muon's, which are zero.cpp's own.
//
//   double peak = probe_matmul_flops();     // FLOP/s of this rank's threads, in some ten milliseconds
//
// A dry product, then the best of five of 512 x 512 x 512 with torch's threads as they are set. Of Muon's: the best of three
// directions of 256 x 1024, after a dry one. Local.
#pragma once

namespace zero {

double probe_matmul_flops();
double probe_newton_schulz_flops(int threads);

}  // namespace zero
