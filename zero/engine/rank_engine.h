// RankEngine: the training state of one model on one rank, and its steps.
//
//   RankEngine engine(comm, specs, units, {.stage = 3}, observer);
//   engine.states().load(u, bytes, DType::kFloat32);              // every unit once
//   { GatheredUnit in_use = engine.use(u, Use::kForward); ... }   // gathered while in_use lives: an operator runs
//   engine.add_gradient(param, bytes);                            // autograd computed it
//   StepReport report = engine.step(lr);
//
// It works on units and flat bytes, not on tensors. zero/torch reports what the model does; the observer receives the
// address of each gathered unit. The schedule, or Demand if there is none (zero/plan), determines which units are
// gathered, released, reduced and updated. Placer and Rebalancer choose the tiers of states. Executor, StepPasses,
// UpdateTimes, EngineStep, StateMover, StateAccess and HalfSteps carry this out. If a read or write of states fails,
// every later call throws the same IoError, which names rank and unit. Collective, unless said otherwise: every rank's
// model does the same things in the same order. One thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "zero/engine/gather/gathered_unit.h"
#include "zero/engine/gradient_access.h"
#include "zero/engine/half_steps.h"
#include "zero/engine/options/engine_host.h"
#include "zero/engine/options/engine_resources.h"
#include "zero/engine/options/options.h"
#include "zero/engine/options/step_report.h"
#include "zero/engine/state_access.h"
#include "zero/engine/states/parameter_writes.h"
#include "zero/engine/wire/step_sync.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

// Reason for a use. Untraced: evaluation and reading, which belong to no step's trace.
enum class Use : std::uint8_t { kForward, kBackward, kUntraced };

class RankEngine final : private UnitPins {
 public:
  // Throws ConfigError before anything is allocated, for options out of range or a budget that is too small.
  RankEngine(Communicator& comm, std::vector<ParamSpec> specs, std::vector<Unit> units, const AttachOptions& options,
             UnitObserver& observer, const EngineHost& host = {});
  ~RankEngine() override;

  // Moves states to other tiers if less memory is free than the reserve (`[zero] memory_reserve`). Call it before the
  // first step, when parameters have their first values.
  void settle();
  // Local. Counts later uses and gradients to the step's micro-batch `number`. It is for passes in the order of a
  // pipeline: a backward pass ends where the backward pass of another micro-batch begins. Throws ConfigError if
  // `number` is not below `accumulate`.
  void begin_micro_batch(int number);
  // Begins the backward pass of the current micro-batch. No-op if a use or a gradient has begun it. Call it for a
  // backward pass that may have neither, because the step counts such passes also.
  void begin_backward();
  // Gathers the unit. If micro-batches have no numbers, a forward use after a backward pass begins the next
  // micro-batch.
  GatheredUnit use(int unit, Use why);
  // Local. Returns the factor of a loss before its backward pass; 1: no loss scale. Call it for each loss of a step.
  double scale_loss();
  // Local. Returns the same factor, and counts no loss.
  double loss_scale() const;
  // Adds a gradient, contiguous and in the parameter's dtype.
  void add_gradient(int param, const std::byte* gradient);
  StepReport step(double lr, const StepLimits& limits = {}) { return step(StepRates{.lr = lr}, limits); }
  StepReport step(const StepRates& rates, const StepLimits& limits = {});
  // The two halves of step(), for one of several engines of a model; see EngineStep::agree().
  StepSync agree_step(const StepRates& rates, const StepLimits& limits = {});
  StepReport carry_out_step(const StepSync& agreed, const StepRates& rates);
  // Between steps. Move states to the disk, and back; see Engine::offload_states(). Return the bytes that moved.
  std::int64_t offload_states(const MovedStates& which);
  std::int64_t reload_states();
  // Waits for everything begun, and applies delayed gradients; see UpdateTimes::finish().
  void finish(bool ends = false);

  // All Local.
  StateAccess& states();
  const StateAccess& states() const;
  GradientAccess& gradients();
  HalfSteps& half_steps();
  ParameterWrites& writes();
  EngineReport report() const;
  WorkSeconds take_work_seconds();
  bool in_forward() const;
  const Schedule& schedule() const;
  const std::vector<ParamSpec>& specs() const;
  const std::vector<Unit>& units() const;
  EngineResources resources();

 private:
  struct Inside;  // the engine's parts, whose headers do not concern its users

  void unpin(int unit) noexcept override;
  void mark_written(int unit) override;
  void bring(int unit, Use why);

  const std::unique_ptr<Inside> in_;
};

}  // namespace zero
