// Engine: the training state of one model on one rank, and the steps that change it. Here plan, comm, memory and optim
// meet.
//
// It knows units and flat bytes, not tensors: the seam (zero/torch) tells it what the model does, and it tells the
// observer where a unit's bytes are.
//
//   Engine engine(comm, specs, units, {.stage = 3}, observer);
//   engine.states().load(u, bytes, DType::kFloat32);              // every unit once
//   { GatheredUnit in_use = engine.use(u, Use::kForward); ... }   // an operator runs: the unit stays that long
//   engine.add_gradient(param, bytes);                            // autograd made one
//   StepReport report = engine.step(lr);
//
// It decides nothing. The schedule and, where there is none, Demand (zero/plan) say which units to gather, release,
// reduce and update. Placer and Rebalancer say where states lie. Executor, StepUpdate, EngineStep, Replanner,
// StateAccess and ServedAccess carry it out.
//
// If a read or write of states fails, the engine has ended: every later call throws the same IoError, which names rank
// and unit. Collective, unless said otherwise: every rank's model does the same things in the same order. One thread at
// a time.
#pragma once

#include <memory>
#include <vector>

#include "zero/base/files/fatal_io.h"
#include "zero/engine/engine_parts.h"
#include "zero/engine/engine_statistics.h"
#include "zero/engine/engine_step.h"
#include "zero/engine/gather/gathered_unit.h"
#include "zero/engine/gradient_access.h"
#include "zero/engine/options/engine_resources.h"
#include "zero/engine/options/options.h"
#include "zero/engine/replanner.h"
#include "zero/engine/served_access.h"
#include "zero/engine/state_access.h"
#include "zero/engine/step_update.h"

namespace zero {

// Why a unit is wanted. Untraced: evaluation and reading, which are no part of a step's trace.
enum class Use : std::uint8_t { kForward, kBackward, kUntraced };

class Engine final : private UnitPins {
 public:
  // Throws ConfigError before anything is allocated: options out of range, a budget that is too small.
  Engine(Communicator& comm, std::vector<ParamSpec> specs, std::vector<Unit> units, const EngineOptions& options,
         UnitObserver& observer, const EngineSeams& seams = {});
  ~Engine() override;

  // To be called when parameters have their first values, before the first step: if memory is short, states make room.
  // The reserve is for memory that other programs take until that step ends.
  void settle();
  // Local. Uses and gradients from here on are of the step's micro-batch `number`, for passes in the order of a pipeline:
  // its backward pass ends where that of another one begins. Throws ConfigError for a number beyond `accumulate`.
  void begin_micro_batch(int number);
  // A forward use after a backward pass begins the step's next micro-batch, where they have no numbers.
  GatheredUnit use(int unit, Use why);
  // Local. The factor of a loss before its backward pass; to be asked for each loss of a step. 1: there is no
  // scale.
  double scale_loss() { return step_.scale_loss(); }
  // Contiguous, in the parameter's dtype.
  void add_gradient(int param, const std::byte* gradient);
  StepReport step(double lr, const StepLimits& limits = {});
  // Drops gradients of the running step, by parameter; see EngineStep::drop().
  void drop_gradients(const std::vector<bool>& params);
  // Waits for everything that was begun, and applies what was delayed; see StepUpdate::finish().
  void finish(bool ends = false);

  // Local, all of these.
  StateAccess& states() { return states_; }
  const StateAccess& states() const { return states_; }
  GradientAccess& gradients() { return gradients_; }
  ServedAccess& served() { return served_; }
  ParameterWrites& writes() { return parts_.writes; }
  EngineReport report() const;
  WorkSeconds take_work_seconds() { return statistics_.take_work_seconds(); }
  bool in_forward() const { return parts_.executor.in_forward(); }
  bool has_gradients() const { return parts_.executor.has_gradients(); }  // of the running step
  const Schedule& schedule() const { return parts_.executor.replay().schedule(); }
  const std::vector<ParamSpec>& specs() const { return parts_.specs; }
  const std::vector<Unit>& units() const { return parts_.state.units(); }
  EngineResources resources() {
    const EngineComms& comms = parts_.comms;
    return {comms.run, comms.copy, comms.mesh, parts_.ledger, parts_.options, parts_.read_memory, parts_.link.get()};
  }

 private:
  void unpin(int unit) noexcept override;
  void mark_written(int unit) override;
  void bring(int unit, Use why);

  EngineParts parts_;
  FatalIo io_;
  StepUpdate update_;
  EngineStatistics statistics_;
  Replanner replanner_;
  EngineStep step_;
  StateAccess states_;
  GradientAccess gradients_;
  ServedAccess served_;
};

}  // namespace zero
