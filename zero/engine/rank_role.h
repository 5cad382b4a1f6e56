// RankRole: the work of a rank in the steps of a run. By default it computes gradients and updates its states.
//
//   const std::unique_ptr<RankRole> role = make_role(run, options);        // zero/serve/role/make_role.h
//   RankEngine engine(role->comm(), specs, units, role->options(), observer);
//   role->attach(engine);
//   role->begin();
//   const StepReport report = role->step(rates, limits);
//   role->leave();
//   role->release();
//
// In another role a rank makes only one half of each step (half_steps.h). A rank that only computes gradients receives
// its values, and a rank that only updates takes no steps of its own. Collective over comm(), unless said otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zero/engine/rank_engine.h"

namespace zero {

// A state of a role beside its engine's states, with its name in a checkpoint.
struct RoleState {
  std::string name;
  std::span<const std::byte> bytes;
};

// The part of a checkpoint that belongs to a role.
struct SavedRole {
  std::vector<RoleState> states{};  // all tensors of the rank's file that are no states of engines
  std::int64_t num_files = 0;       // of the checkpoint: one for each rank that saved
  std::int64_t steps = 0;           // updates before the save
};

class RankRole {
 public:
  // `run`: all ranks; it must outlive the role. `options`: of this rank's engine.
  RankRole(Communicator& run, AttachOptions options) : run_(run), options_(std::move(options)) {}
  virtual ~RankRole() = default;
  RankRole(const RankRole&) = delete;
  RankRole& operator=(const RankRole&) = delete;

  // Local. The communicator and the options of this rank's engine.
  virtual Communicator& comm() { return run_; }
  const AttachOptions& options() const { return options_; }
  // Local. The communicator over which rank 0's buffers are broadcast.
  virtual Communicator& comm_of_buffers() { return run_; }
  // Local. True: other ranks hold and update the optimizer states, and have the values of parameters.
  virtual bool updated_elsewhere() const { return false; }

  // Local. Throw ConfigError if the role excludes a buffer with statistics that a module gathers in training, a device,
  // or a checkpoint of several engines. `call`: the function that saves or loads it; `which`: this engine.
  virtual void refuse_statistics(const std::string& /*buffer*/) const {}
  virtual void refuse_device(const Device& /*device*/) const {}
  virtual void refuse_joint_checkpoint(std::string_view /*call*/, const std::string& /*which*/) const {}

  // Call it once. The engine must live until release(), which drops all that refers to it.
  virtual void attach(RankEngine& engine) { engine_ = &engine; }
  virtual void release() { engine_ = nullptr; }

  // The next functions are for use between attach() and release().

  // Receives the first values, if other ranks have them. No-op if they have come.
  virtual void begin() {}
  // Ends the passes of a step. Throws what RankEngine::step() throws, and ConfigError for a step that the role
  // excludes.
  virtual StepReport step(const StepRates& rates, const StepLimits& limits) { return engine_->step(rates, limits); }
  // Does the work of a rank without steps of its own, from step number `step` until the run is over. Returns false at
  // once if the rank has steps.
  virtual bool run_without_steps(std::int64_t /*step*/) { return false; }
  // Local. Leaves the run between steps; the other ranks may go on.
  virtual void leave() {}

  // Local. Returns the states to save; the bytes are valid until the next step.
  virtual std::vector<RoleState> states() const { return {}; }
  // Takes the states that states() returned before the save, if they fit.
  virtual void restore(const SavedRole& /*saved*/) {}

 protected:
  Communicator& run() const { return run_; }
  RankEngine& engine() const { return *engine_; }

 private:
  Communicator& run_;
  AttachOptions options_;
  RankEngine* engine_ = nullptr;
};

}  // namespace zero
