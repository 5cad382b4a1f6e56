// probe_matmul_flops(): the speed of fp32 matrix products on this machine, the limit of a training step.
//
//   double peak = probe_matmul_flops();     // FLOP/s of this rank's threads, in some ten milliseconds
//
// A dry product, then the best of five of 512 x 512 x 512 with torch's threads as they are set. Local.
#pragma once

namespace zero {

double probe_matmul_flops();

}  // namespace zero
