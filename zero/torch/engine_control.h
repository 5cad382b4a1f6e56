// EngineControl: functions of an attached model for training loops that manage whole runs, as `zero train` does: saves
// while training goes on, checkpoints in the launcher's memory, and the engine's measurements.
//
//   EngineControl control = engine.control();
//   std::unique_ptr<CheckpointSave> save = control.begin_save(path, contents);
//   metrics.work = control.take_work_seconds();
//
// A handle: destroy it before its Attachment. Collective, unless said otherwise.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "zero/checkpoint/in_memory_checkpoints.h"
#include "zero/checkpoint/read/loaded_checkpoint.h"
#include "zero/checkpoint/save.h"
#include "zero/engine/options/step_report.h"
#include "zero/engine/states/replicas.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

class ActivationStore;
class AttachedModule;
class PushServer;
class PushWorker;

class EngineControl {
 public:
  explicit EngineControl(AttachedModule& attached) : attached_(attached) {}

  // Between steps. As Attachment::save(), but it returns before the checkpoint is durable: see CheckpointSave, which
  // goes before the engine.
  std::unique_ptr<CheckpointSave> begin_save(const std::filesystem::path& path, SaveContents contents,
                                             SaveMode mode = SaveMode::kAsync);
  // Whether there is memory now for an asynchronous save to copy `bytes` of each rank into.
  bool has_room_to_copy(std::int64_t bytes);
  // Between steps. A checkpoint in memory that the launcher holds: see InMemoryCheckpoints::save().
  [[nodiscard]] bool keep(InMemoryCheckpoints& kept, std::int64_t step, SaveContents contents);
  // As Attachment::load(), of the checkpoint of `step` in that memory.
  LoadedCheckpoint load(InMemoryCheckpoints& kept, std::int64_t step);

  // Between steps. Whether the ranks still hold the same parameters (at stage 0 optimizer states, too); at stage 3
  // there is nothing to compare. Module buffers are each rank's own.
  ReplicaCheck compare_replicas();
  // Applies the gradient that a delayed update still holds back, as for_each_parameter() and destruction do, so that an
  // evaluation sees the weights that a save writes. It changes the bits of later steps. Throws ConfigError within a
  // step and in a gathered() scope.
  void finish_updates();

  // Local. Where the run has servers: this rank's part of it; null: it has another one.
  PushServer* server();
  PushWorker* worker();

  // Local.
  WorkSeconds take_work_seconds();  // since the last call
  const std::vector<Unit>& units() const;
  const Schedule& schedule() const;  // the one in force; without entries before the first step is done
  // To be called before the first offload: activations are those of the engine's device, and they and states take turns on
  // the link between device and host. Where the device is main memory and there is no link, nothing happens.
  void share_link(ActivationStore& activations) const;

 private:
  AttachedModule& attached_;
};

}  // namespace zero
