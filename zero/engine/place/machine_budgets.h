// MachineBudgets: the bytes that a rank may hold on each tier, from the options and from what this machine has free.
//
//   MachineBudgets budgets(&comms.run, options, /*uses_disk=*/true, seams);
//   budgets.free_bytes()                                      // of memory: what "auto" may use
//   budgets.of_states(model, /*min_budget=*/false)            // for states: beside gathered units and staging
//   budgets.require_memory(model, placement, held)            // or a ConfigError, before anything is allocated
//
// A budget that the options give in bytes counts as it is. "auto" is what is free on this machine, shared by its ranks,
// without a fifth that is left to activations and to other programs; a host with "auto" has what a device_memory in bytes
// leaves of that (docs/decisions/0014). Where seams tell what operators take of a device, that stays free in place of the fifth. Without a limit (disk_memory = 0) a disk has nine tenths of what is free there,
// shared by the ranks. A device with memory of its own has budgets of its own: "auto" is what is free there, and the host's
// budget is the machine's memory, of which the device takes nothing. All ranks of a run measure, and agree on the least; where shards are weighted, each has its own memory.
//
// Without a communicator a process plans for the ranks of some machine: "auto" is then no limit, and a disk that is not
// here has no limit either. Where seams tell a device's free memory the plan is for this machine, and that memory and the
// machine's count as in a run. Bytes are a rank's.
#pragma once

#include <cstdint>
#include <string>

#include "zero/comm/communicator.h"
#include "zero/engine/options/engine_seams.h"
#include "zero/engine/options/options.h"
#include "zero/plan/model/step_model.h"
#include "zero/plan/placement/best_placement.h"

namespace zero {

// What "auto" gives each of the ranks that share `free_bytes` of a memory: a fifth is left to activations and others. Where it
// is known what is taken `beside` it by each, that and a thirty-second part are left.
constexpr std::int64_t share_of_free(std::int64_t free_bytes, int ranks, std::int64_t beside = 0) {
  const std::int64_t share = free_bytes / (ranks > 1 ? ranks : 1);
  if (beside == 0) return share / 5 * 4;
  return share - share / 32 > beside ? share - share / 32 - beside : 0;
}

class MachineBudgets {
 public:
  // Collective. `uses_disk`: states may be placed on the disks that the options name; looks at what is free there, and
  // throws ConfigError or IoError where that cannot be had. `options` outlive the budgets.
  MachineBudgets(Communicator* comm, const EngineOptions& options, bool uses_disk, const EngineSeams& seams);

  // Collective. Looks at the memory again: other programs may have taken some.
  void measure_memory();
  // Local. What "auto" may use of the device's memory, as it was measured last, and of this machine's: the same bytes where
  // the device is main memory.
  std::int64_t free_bytes() const { return free_bytes_; }
  std::int64_t free_host_bytes() const { return free_host_bytes_; }
  // Local. The device has memory of its own, beside the machine's.
  bool device_is_apart() const { return seams_.free_device_bytes != nullptr || seams_.device_is_elsewhere; }
  // Local. What is left beside an earlier run's activations: those may have had more than they need.
  bool is_learned() const { return seams_.beside_on_device > 0; }
  // Local. What the disk may hold; 0 where it is not used.
  std::int64_t disk_bytes() const { return disk_bytes_; }
  // Local. Where the disk's budget comes from.
  FreeDisk free_disk() const;
  // Local. The host may hold what the device's budget leaves free of the machine; beside a device apart, all that is free.
  bool host_takes_the_rest() const;

  // Collective. What states may take on each tier, beside gathered units, staging and tiles on their way; equal on every
  // rank, negative where the rest alone is too much. `min_budget`: one unit is gathered at a time.
  TierBudgets of_states(const StepModel& model, bool min_budget) const;

  // Local. Throws ConfigError under "zero.device_memory" where a rank would hold more than is free on this machine.
  // `held`: by states in `placement`. A budget larger than the memory may hold no more than that; one that what it will
  // hold does not fill is as good as any.
  void require_memory(const StepModel& model, const Placement& placement, const TierBudgets& held) const;

 private:
  std::int64_t room_on_disk() const;
  TierBudgets mine(const StepModel& model, bool min_budget) const;

  Communicator* comm_;
  const EngineOptions& options_;
  const EngineSeams seams_;
  std::int64_t free_bytes_ = 0, free_host_bytes_ = 0;
  std::int64_t disk_bytes_ = 0;
};

}  // namespace zero
