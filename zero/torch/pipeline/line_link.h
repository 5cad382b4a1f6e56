// measure_link(): the time of messages between neighbours of a line.
//
//   const LinkSeconds link = measure_link(world.communicator(), line);
//   link.latency + bytes * link.per_byte          // seconds of a message, on the slowest link of all lines
//
// Messages of 1 KiB and of 1 MiB go to the next position and back, on one link of a line after the other; lines measure
// at the same time, as they train. Every rank returns the same values. Collective.
#pragma once

#include "zero/comm/communicator.h"
#include "zero/plan/pipeline/pipeline_grid.h"
#include "zero/plan/pipeline/plan_passes.h"

namespace zero {

LinkSeconds measure_link(Communicator& run, const PipelineGrid& grid);

}  // namespace zero
