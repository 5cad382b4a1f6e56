// EngineParts: the parts of an engine, in the order in which they are made.
//
//   EngineParts parts(comm, specs, units, options, observer, host);
//   parts.executor.access(u);
//
// The parts know units and bytes, not steps. UpdateTimes, EngineStep, StateMover, EngineStatistics and StateAccess use
// them. Construction is Collective. Throws ConfigError before anything is allocated, as RankEngine does; IoError if the
// disk of the states fails.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "zero/engine/executor.h"
#include "zero/engine/gather/gatherer.h"
#include "zero/engine/gather/secondary_parts.h"
#include "zero/engine/options/engine_host.h"
#include "zero/engine/options/loss_scale.h"
#include "zero/engine/options/options.h"
#include "zero/engine/place/placer.h"
#include "zero/engine/reduce/reducer.h"
#include "zero/engine/states/parameter_writes.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/engine/step_passes.h"
#include "zero/engine/unit_comms.h"
#include "zero/engine/update/updater.h"
#include "zero/engine/wire/engine_comms.h"
#include "zero/memory/memory_watch.h"
#include "zero/plan/units/leaves.h"

namespace zero {

struct EngineParts {
  EngineParts(Communicator& comm, std::vector<ParamSpec> specs, const std::vector<Unit>& cut,
              const AttachOptions& options, UnitObserver& observer, const EngineHost& host);
  EngineParts(const EngineParts&) = delete;
  EngineParts& operator=(const EngineParts&) = delete;
  ~EngineParts();  // waits for the device

  const std::vector<ParamSpec> specs;
  const AttachOptions options;         // accumulate and reduce follow from leaves
  const std::optional<Leaves> leaves;  // empty: the step has none
  const int local_world;               // ranks that share this machine's memory
  // reader of this machine's free memory, or a test's; several threads may call it
  const MemoryWatch::Source read_memory;
  const EngineComms comms;
  const std::vector<Unit> units;        // units as this rank sees them
  std::optional<LossScale> loss_scale;  // empty: no loss scale
  Ledger ledger;
  const std::unique_ptr<UpdateRule> rule;
  Placer placer;
  const GatherBudget budget;  // the first budget
  Device& device;
  UnitComms unit_comms;
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
  bool averaged = false;  // parameters hold their moving averages, and step() is refused until they are exchanged back

 private:
  ShardUpdates shard_updates();
};

}  // namespace zero
