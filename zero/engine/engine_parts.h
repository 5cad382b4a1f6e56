// EngineParts: the parts of an engine, in the order in which they are made.
//
//   EngineParts parts(comm, specs, units, options, observer, seams);
//   parts.executor.access(u);
//
// The parts know units and bytes, not steps. UpdateTimes, EngineStep, Replanner, EngineStatistics and StateAccess use
// them. Construction is Collective. Throws ConfigError before anything is allocated, as Engine does; IoError if the
// disk of the states fails.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "zero/comm/device/device_communicator.h"
#include "zero/engine/executor.h"
#include "zero/engine/gather/gatherer.h"
#include "zero/engine/gather/secondary_parts.h"
#include "zero/engine/options/engine_seams.h"
#include "zero/engine/options/loss_scale.h"
#include "zero/engine/options/options.h"
#include "zero/engine/place/placer.h"
#include "zero/engine/reduce/reducer.h"
#include "zero/engine/states/parameter_writes.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/engine/step_passes.h"
#include "zero/engine/update/updater.h"
#include "zero/engine/wire/engine_comms.h"
#include "zero/engine/wire/staged_communicator.h"
#include "zero/engine/wire/unit_wire.h"
#include "zero/memory/account/charge.h"
#include "zero/memory/memory_monitor.h"

namespace zero {

struct EngineParts {
  EngineParts(Communicator& comm, std::vector<ParamSpec> specs, const std::vector<Unit>& cut,
              const EngineOptions& options, UnitObserver& observer, const EngineSeams& seams);
  EngineParts(const EngineParts&) = delete;
  EngineParts& operator=(const EngineParts&) = delete;
  ~EngineParts();  // waits for the device

  const std::vector<ParamSpec> specs;
  const EngineOptions options;
  // reader of this machine's free memory, or a test's; several threads may call it
  const MemoryMonitor::Source read_memory;
  const EngineComms comms;
  const std::vector<Unit> units;        // units as this rank sees them
  std::optional<LossScale> loss_scale;  // empty: no loss scale
  Ledger ledger;
  const std::unique_ptr<UpdateRule> rule;
  Placer placer;
  const GatherBudget budget;                        // the first budget
  const std::unique_ptr<CodedCommunicator> coded;   // null: units are sent without a codec
  const std::unique_ptr<CodedCommunicator> copies;  // communicator between copies; null: no codec
  const Charge coded_staging;
  Device& device;
  const std::unique_ptr<DeviceCommunicator> linked;  // null: bytes of the device are sent through the host
  const Charge linked_staging;
  const std::unique_ptr<StagedCommunicator> staged;        // null: the host can read the device, or devices are linked
  const std::unique_ptr<StagedCommunicator> staged_parts;  // same for secondary parts; null: none are kept
  // Same for directions of matrices; null: none are gathered on the device.
  const std::unique_ptr<StagedCommunicator> staged_directions;
  // Sums over copies of gradients that were copied to the host; null if there are no copies, or no device.
  const std::unique_ptr<GradientSum> host_sums;
  const std::unique_ptr<DiskTier> disk;  // null: no state is on disk
  const std::unique_ptr<Link> link;      // null: no link between device and host
  ShardedState state;
  SecondaryParts secondary;
  Gatherer gatherer;
  Reducer reducer;
  Updater updater;
  Executor executor;
  StepPasses passes;
  ParameterWrites writes;
  // Return the bytes so far, and the seconds that this rank has spent waiting for other ranks.
  Traffic traffic() const;
  double waited_seconds() const;

  bool averaged = false;  // parameters hold their moving averages, and step() is refused until they are exchanged back

 private:
  // Returns the host's communicator of gathers and reductions.
  Communicator& host_unit_comm() { return coded != nullptr ? *coded : comms.units; }
  // Returns when a collective begins. A code depends on the step in which a collective begins.
  Begin begin() const {
    return comms.units_apart() && coded == nullptr && copies == nullptr ? Begin::kWhenDown : Begin::kAtOnce;
  }
  Communicator& device_comm(Communicator& of_host) {
    if (linked != nullptr) return *linked;
    return staged != nullptr ? *staged : of_host;
  }
  Communicator& unit_comm() { return device_comm(host_unit_comm()); }
  Communicator* parts_comm();
  Communicator& direction_comm();
  // For the initializer list: each function reads only members that precede its own.
  std::unique_ptr<StagedCommunicator> make_staged();
  std::unique_ptr<StagedCommunicator> make_staged_parts();
  std::unique_ptr<StagedCommunicator> make_staged_directions();
  std::unique_ptr<GradientSum> make_host_sums();
  GradientSum::Copies over_copies() const;
  GradientSum::Copies sum_over() const;
  ShardUpdates shard_updates();
};

}  // namespace zero
