// probe_update(), probe_direction(), probe_reads(): the memory accesses of an optimizer's passes.
//
//   probe_reads(span, 2);     // the gradient and the parameter
//   probe_update(span);       // all arrays of the span: as an update reads and writes them
//   probe_direction(span);    // as MatrixRule::direct(): the parameter is written, and not read
//
// Each makes the same reads and writes with next to no arithmetic. A pass that is as fast as its probe is at the
// memory's limit. However often they are repeated, fp32 values neither overflow nor become denormal, because they
// approach the gradient's values. `numel` of a span is a multiple of 16, or of kCodeBlock if states are in 8 bits. A
// span has at most three states in fp32, or two in 8 bits and at most one in fp32. Local.
#pragma once

#include "zero/optim/rule/update_span.h"

namespace zero::cli {

void probe_update(const UpdateSpan& span);
void probe_direction(const UpdateSpan& span);
// Reads the first `num_arrays` (1 to 4) of these arrays: the gradient, the parameter and the states in fp32.
void probe_reads(const UpdateSpan& span, std::size_t num_arrays);

}  // namespace zero::cli
