// EngineControl: functions of an attached model for training loops that manage whole runs, as `zero train` does.
//
//   EngineControl control = engine.control();
//   std::unique_ptr<RunningSave> save = control.begin_save(path, contents);
//   metrics.work = control.take_work_seconds();
//
// It saves while training continues, keeps checkpoints in the launcher's memory, and returns the engine's measurements.
// A handle: destroy it before its Engine. Collective, unless a function says otherwise.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zero/checkpoint/in_memory_checkpoints.h"
#include "zero/checkpoint/read/loaded_checkpoint.h"
#include "zero/checkpoint/save.h"
#include "zero/engine/options/step_report.h"
#include "zero/engine/states/replicas.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

class ActivationStore;
class AttachedModule;
class RankRole;

class EngineControl {
 public:
  explicit EngineControl(AttachedModule& attached) : attached_(attached) {}

  // Saves between steps, as Engine::save() does, but returns before the checkpoint is durable. Destroy the result
  // before the engine.
  std::unique_ptr<RunningSave> begin_save(const std::filesystem::path& path, SaveContents contents,
                                          SaveMode mode = SaveMode::kAsync);
  // True if there is memory now into which an asynchronous save can copy `bytes` of each rank.
  bool has_room_to_copy(std::int64_t bytes);
  // Between steps. Keeps a checkpoint in memory that the launcher holds: see InMemoryCheckpoints::save().
  [[nodiscard]] bool keep(InMemoryCheckpoints& kept, std::int64_t step, SaveContents contents);
  // Loads the checkpoint of `step` from that memory, as Engine::load() does.
  LoadedCheckpoint load(InMemoryCheckpoints& kept, std::int64_t step);

  // Between steps. Compares the parameters of the ranks; at stage 0 also the optimizer states. At stage 3 there is
  // nothing to compare. Module buffers are not compared: each rank has its own.
  ReplicaCheck compare_replicas();
  // Applies the gradient that a delayed update still holds back, as for_each_parameter() and destruction do. An
  // evaluation then uses the weights that a save writes. It changes the bits of later steps. Throws ConfigError within
  // a step and in a gathered() scope.
  void finish_updates();
  // Between steps. Completes the exchange of outer sums that overlaps with steps, as a save does. No-op without one.
  void finish_outer_sums();

  // Visits parameters as Engine::for_each_parameter() does, but only those of one unit: `first` and its neighbours
  // in name order. Returns the number of the next parameter to visit, or 0 after the last.
  std::size_t visit_some(std::size_t first, const std::function<void(const std::string&, const at::Tensor&)>& visit,
                         bool full_precision);

  // Local. Returns this rank's role in the steps of its run.
  RankRole& role();

  // Local.
  WorkSeconds take_work_seconds();  // seconds since the last call
  const std::vector<Unit>& units() const;
  const Schedule& schedule() const;  // the current schedule; without entries before the first step is done
  // Lets activations and states take turns on the link between device and host. Call it before the first offload. Only
  // activations on the engine's device are offloaded then. No-op if the device is main memory and no link is simulated.
  void share_link(ActivationStore& activations) const;

 private:
  AttachedModule& attached_;
};

}  // namespace zero
