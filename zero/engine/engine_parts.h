// EngineParts: what an engine is made of, in the order in which the parts are made. They know units and bytes, and
// nothing of steps: StepUpdate, EngineStep, Replanner, EngineStatistics and StateAccess work with them.
//
//   EngineParts parts(comm, specs, units, options, observer, seams);
//   parts.executor.access(u);
//
// Construction is Collective. Throws ConfigError before anything is allocated, as Engine does; IoError where states lie
// on disk.
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
  const MemoryMonitor::Source read_memory;  // of this machine, or a test's; may be called by several threads
  const EngineComms comms;
  const std::vector<Unit> units;        // as this rank sees them
  std::optional<LossScale> loss_scale;  // empty: losses are as they are
  Ledger ledger;
  const std::unique_ptr<UpdateRule> rule;
  Placer placer;
  const GatherBudget budget;                        // to begin with
  const std::unique_ptr<CodedCommunicator> coded;   // null where units cross as they are
  const std::unique_ptr<CodedCommunicator> copies;  // between copies; null where their sums cross as they are
  const Charge coded_staging;
  Device& device;
  const std::unique_ptr<DeviceCommunicator> linked;  // null where bytes of the device go through the host
  const Charge linked_staging;
  const std::unique_ptr<StagedCommunicator> staged;  // null where the host can read the device, or devices are linked
  const std::unique_ptr<StagedCommunicator> staged_parts;  // the same of secondary parts; null: none are kept
  // The same of directions of matrices; null: none come together on the device.
  const std::unique_ptr<StagedCommunicator> staged_directions;
  const std::unique_ptr<GradientSum>
      host_sums;                         // over copies, of what has come down; null where there are none, or no device
  const std::unique_ptr<DiskTier> disk;  // null where nothing lies there
  const std::unique_ptr<Link> link;      // null where none stands
  ShardedState state;
  SecondaryParts secondary;
  Gatherer gatherer;
  Reducer reducer;
  Updater updater;
  Executor executor;
  ParameterWrites writes;
  // Bytes so far, and seconds that this rank has spent waiting for others.
  Traffic traffic() const;
  double waited_seconds() const;

  bool averaged = false;  // parameters have changed places with their averages: until they are back there is no step

 private:
  // Over which units are gathered and reduced.
  Communicator& host_unit_comm() { return coded != nullptr ? *coded : comms.units; }
  // A code depends on the step in which a collective begins.
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
  // For the initializer list: each looks only at members before its own.
  std::unique_ptr<StagedCommunicator> make_staged();
  std::unique_ptr<StagedCommunicator> make_staged_parts();
  std::unique_ptr<StagedCommunicator> make_staged_directions();
  std::unique_ptr<GradientSum> make_host_sums();
  GradientSum::Copies over_copies() const;
  GradientSum::Copies sum_over() const;
  ShardUpdates shard_updates();
};

}  // namespace zero
