// HostGroup: how many ranks hold the model once where zero.group is "auto": of several machines those of one.
//
//   const HostGroup group = group_of_run(loaded, world, local_rank, device);   // Collective
//   if (group.ranks > 0) job.attach.group = group.ranks;
//   job.group_line = group.line;      // "zero.group auto: the 4 ranks of each machine hold the model once"
//
// Gathers then stay within a machine, and only gradients cross. All ranks hold it once where that cannot be, or would be
// worse: machines have one rank or unequal numbers, a machine has no room for the states, sums along the chain of copies would
// take longer (many machines), or codecs are to make fewer bytes of what crosses between all of them. Nothing is chosen, and no line is there, on one machine, at stage 0, with servers,
// where copies train apart, and on GPUs. Bits do not depend on it.
#pragma once

#include <string>

#include "zero/command/torch_entry.h"
#include "zero/transport/world.h"

namespace zero::cli {

struct HostGroup {
  int ranks = 0;     // 0: all, or as zero.group says
  std::string line;  // for people; empty: nothing was chosen
};

// Local. Of a plan for `request.machines` like this one, or for its cluster's.
HostGroup planned_group(const PlanRequest& request);

// Collective; Local on a replacement (zero/comm/replacements.h), which chooses nothing. `device`: of this rank. A machine's
// room is what it has just now, and that of the machine with least counts.
HostGroup group_of_run(const LoadedConfig& loaded, World& world, int local_rank, const std::string& device);

}  // namespace zero::cli
