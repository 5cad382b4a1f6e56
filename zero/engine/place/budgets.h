// Budgets: the bytes that a rank may hold on each tier, from the options and this machine's free memory.
//
//   Budgets budgets(&comms.run, options, /*uses_disk=*/true, host);
//   budgets.room().device                                     // what "auto" may use
//   budgets.of_states(model, /*min_budget=*/false)            // for states: beside gathered units and staging
//   budgets.require_memory(model, placement, held)            // or a ConfigError, before anything is allocated
//
// A budget in bytes counts unchanged. "auto" is 4/5 of this machine's free memory, shared by its ranks; the last fifth
// is for activations and other programs. If `host` gives the bytes that operators need on a device, these bytes and
// 1/32 are left instead of the fifth. If device_memory has a size, an "auto" host gets the rest of the 4/5
// (docs/decisions/0014). A device with its own memory has a separate budget: "auto" is its free memory, and takes
// nothing of the host's. Without a limit (disk_memory = 0) a disk has 9/10 of its free bytes, shared by the ranks. All
// ranks of a run measure and take the least; with weighted shards, each has its own. Without a communicator, a process
// plans for an unspecified machine: "auto" and a disk that is not here have no limit. If `host` gives a device's free
// memory, the plan is for this machine. Bytes are a rank's.
#pragma once

#include <cstdint>
#include <string>

#include "zero/comm/communicator.h"
#include "zero/engine/options/engine_host.h"
#include "zero/engine/options/options.h"
#include "zero/plan/model/step_model.h"
#include "zero/plan/placement/best_placement.h"

namespace zero {

// Returns the "auto" budget of each rank that shares `free_bytes` of a memory: a fifth is left for activations and
// other programs. If each rank's other bytes are known (`beside`), these and 1/32 are left instead.
constexpr std::int64_t share_of_free(std::int64_t free_bytes, int ranks, std::int64_t beside = 0) {
  const std::int64_t share = free_bytes / (ranks > 1 ? ranks : 1);
  if (beside == 0) return share / 5 * 4;
  return share - share / 32 > beside ? share - share / 32 - beside : 0;
}

class Budgets {
 public:
  // Collective. `uses_disk`: states may be placed on the disks of the options; reads the free bytes there, and throws
  // ConfigError or IoError if that fails. `options` must outlive the budgets.
  Budgets(Communicator* comm, const AttachOptions& options, bool uses_disk, const EngineHost& host);

  // Collective. Measures the free memory again: other programs may have taken some.
  void measure_memory();
  // Local. Returns the bytes of each tier that "auto" may use, as last measured. Device and host have the same bytes if
  // the device is main memory. The disk has its budget, or without one its part of the free bytes; 0 if it is not used.
  const PerTier<std::int64_t>& room() const { return room_; }
  // Local. Returns whether the device has its own memory, apart from the machine's.
  bool device_is_apart() const { return host_.free_device_bytes != nullptr || host_.device_is_elsewhere; }
  // Local. Returns whether the budget is what an earlier run's activations left, which may have had more than they
  // need.
  bool is_learned() const { return host_.beside_on_device > 0; }
  // Local. Returns the measurement behind the disk's budget.
  FreeDisk free_disk() const;
  // Local. Returns whether the host may hold all memory that the device's budget leaves free; with an apart device, all
  // free memory.
  bool host_takes_the_rest() const;

  // Collective. Returns the bytes for states on each tier, beside gathered units, staging and tiles; equal on every
  // rank, negative if these others already exceed the budget. `min_budget`: one unit is gathered at a time.
  TierBudgets of_states(const StepModel& model, bool min_budget) const;

  // Local. Throws ConfigError under "zero.device_memory" if a rank would hold more than this machine's free memory.
  // `held`: bytes of states in `placement`. A budget may exceed the memory if the rank's bytes do not.
  void require_memory(const StepModel& model, const Placement& placement, const TierBudgets& held) const;

 private:
  std::int64_t room_on_disk() const;
  TierBudgets mine(const StepModel& model, bool min_budget) const;

  Communicator* comm_;
  const AttachOptions& options_;
  const EngineHost host_;
  PerTier<std::int64_t> room_;
};

}  // namespace zero
