// HostGroup: the number of ranks that hold one copy of the model if zero.group is "auto".
//
//   const HostGroup group = group_of_run(loaded, world, local_rank, device);   // Collective
//   if (group.ranks > 0) job.attach.group = group.ranks;
//   job.group_line = group.line;      // "zero.group auto: the 4 ranks of each machine hold one copy of the model"
//
// On several machines, the ranks of each machine hold one copy of the model. Gathers then stay within a machine, and
// only gradients are sent between machines. In these cases all ranks together hold one copy. Machines have one rank or
// unequal numbers of ranks. A machine has no room for the states. With many machines, sums along the chain of copies
// would take longer. Codecs should reduce the bytes that all ranks send each other. Nothing is chosen, and `line` is
// empty, on one machine, at stage 0, with servers, with local steps, and on GPUs. The choice does not change the bits.
#pragma once

#include <string>

#include "zero/comm/transport/world.h"

#include "app/cli/command/torch_entry.h"

namespace zero::cli {

struct HostGroup {
  int ranks = 0;     // 0: all ranks, or the value of zero.group
  std::string line;  // for the user; empty: nothing was chosen
};

// Chooses for a plan, which has `request.machines` machines like this one, or those of its cluster. Local.
HostGroup planned_group(const PlanRequest& request);

// Chooses for a run. `device`: this rank's device. The room of a machine is its free memory now, and the machine with
// least room decides. Collective; Local on a replacement (zero/comm/replacements.h), which chooses nothing.
HostGroup group_of_run(const LoadedConfig& loaded, World& world, int local_rank, const std::string& device);

}  // namespace zero::cli
