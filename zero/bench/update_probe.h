// probe_update(), probe_direction(), probe_reads(): the reads and writes of an optimizer's passes over memory, with next to no
// arithmetic. How near a pass comes to its probe says how near it is to the memory's limit.
//
//   probe_reads(span, 2);     // the gradient and the parameter
//   probe_update(span);       // all arrays of the span: as an update reads and writes them
//   probe_direction(span);    // as MatrixRule::direct() does: the parameter is written, and not read
//
// However often they are repeated, fp32 values neither overflow nor become denormal: they tend to the gradient's.
// `numel` of a span is a multiple of 16, with states in 8 bits of kCodeBlock. It has at most three states in fp32; or two in 8 bits, and one
// in fp32 at most.
// Local.
#pragma once

#include "zero/optim/update_span.h"

namespace zero::cli {

void probe_update(const UpdateSpan& span);
void probe_direction(const UpdateSpan& span);
// Reads the first `num_arrays`, 1 to 4, of the gradient, the parameter and the states in fp32.
void probe_reads(const UpdateSpan& span, std::size_t num_arrays);

}  // namespace zero::cli
