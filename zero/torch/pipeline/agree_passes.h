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

// measure_link(): the time of messages between neighbours of a line.
//
//   const LinkSeconds link = measure_link(world.communicator(), line);
//   link.latency + bytes * link.per_byte          // seconds of a message, on the slowest link of all lines
//
// A rank sends messages of 1 KiB and 1 MiB to the next position, and receives answers of the same sizes. The links of a
// line are measured one after the other. All lines measure at the same time, because they also train at the same time.
// Every rank returns the same values. Collective.
LinkSeconds measure_link(Communicator& run, const PipelineGrid& grid);

}  // namespace zero
