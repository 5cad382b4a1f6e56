// agree_passes(): the sections and the order of passes, the same on every rank.
//
//   forward = learn_forward(parameters, loss, run.rank() == 0 && needs_seconds(options) ? &timer : nullptr);
//   PlannedPasses planned = agree_passes(forward.graph, options, /*micros=*/8, run, line);
//
// All ranks take rank 0's seconds of operators. With PassOrder::kAuto, neighbours also measure their link. Then all
// ranks plan with the same numbers. Collective. Throws what plan_passes() throws, on every rank.
#pragma once

#include "zero/comm/communicator.h"
#include "zero/plan/pipeline/pipeline_grid.h"
#include "zero/plan/pipeline/plan_passes.h"

namespace zero {

// `graph`: equal on every rank, except its seconds. If they are needed, they become those of rank 0.
PlannedPasses agree_passes(ForwardGraph& graph, const PipelineOptions& options, int micros, Communicator& run,
                           const PipelineGrid& grid);

}  // namespace zero
