// What this machine can compute: fp32 matrix products, the limit that a training step is measured against.
//
//   double peak = probe_matmul_flops();     // FLOP/s of this rank's threads, in some ten milliseconds
//
// A dry product, then the best of five of 512 x 512 x 512 with torch's threads as they are set. Local.
#pragma once

namespace zero {

double probe_matmul_flops();

}  // namespace zero
