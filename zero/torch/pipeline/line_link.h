// measure_link(): the time of messages between neighbours of a line.
//
//   const LinkSeconds link = measure_link(world.communicator(), line);
//   link.latency + bytes * link.per_byte          // seconds of a message, on the slowest link of all lines
//
// A rank sends messages of 1 KiB and 1 MiB to the next position, and receives answers of the same sizes. The links of a
// line are measured one after the other. All lines measure at the same time, because they also train at the same time.
// Every rank returns the same values. Collective.
#pragma once

#include "zero/comm/communicator.h"
#include "zero/plan/pipeline/pipeline_grid.h"
#include "zero/plan/pipeline/plan_passes.h"

namespace zero {

LinkSeconds measure_link(Communicator& run, const PipelineGrid& grid);

}  // namespace zero
