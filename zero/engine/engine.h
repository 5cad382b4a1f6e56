// Engine: the training state of one model on one rank, and what happens to it. The only place where plan, comm, memory
// and optim meet.
//
// It knows units and flat bytes, not tensors: the seam (zero/torch) tells it what the model does, and it tells the
// observer where a unit's bytes are.
//
//   Engine engine(comm, specs, units, {.stage = 3}, observer);
//   engine.load(u, bytes, DType::kFloat32);                       // every unit once
//   { GatheredUnit in_use = engine.use(u, Use::kForward); ... }   // an operator runs: the unit stays that long
//   engine.add_gradient(param, bytes);                            // autograd made one
//   StepReport report = engine.step(lr);
//
// Collective, unless said otherwise: every rank's model does the same things in the same order. One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "zero/engine/agreement.h"
#include "zero/engine/executor.h"
#include "zero/engine/gathered_unit.h"
#include "zero/engine/options.h"
#include "zero/engine/updater.h"

namespace zero {

// Why a unit is wanted. Untraced: evaluation and reading, which are no part of a step's trace.
enum class Use : std::uint8_t { kForward, kBackward, kUntraced };

class Engine final : private UnitPins {
 public:
  // Throws ConfigError before anything is allocated: options out of range, a budget that is too small.
  Engine(Communicator& comm, std::vector<ParamSpec> specs, std::vector<Unit> units, const EngineOptions& options,
         UnitObserver& observer);
  ~Engine() override;

  // Local. First contents, from the unit's whole range; see ShardedState::load. The ranks must be given the same.
  void load(int unit, const std::byte* whole, DType dtype) { state_.load(unit, whole, dtype); }

  GatheredUnit use(int unit, Use why);
  // Local. What was used is also written: stored when the last use ends.
  void mark_written(int unit) { gatherer_.mark_written(unit); }
  // Contiguous, in the parameter's dtype.
  void add_gradient(int param, const std::byte* gradient);
  // The end of a micro-batch that is not the step's last.
  void end_micro_batch();
  StepReport step(double lr);

  // Collective. The unit's whole range in full precision (the master where there is one), on every rank, for as long as
  // `read` takes; `read` is Local.
  void read_full_precision(int unit, const std::function<void(std::span<const float>)>& read);

  // Local.
  const std::vector<ParamSpec>& specs() const { return specs_; }
  const std::vector<Unit>& units() const { return state_.units(); }
  const Schedule& schedule() const { return executor_.schedule(); }
  const EngineOptions& options() const { return options_; }
  std::byte* data(int unit) const { return gatherer_.data(unit); }
  Communicator& communicator() { return comm_; }
  bool in_backward() const { return executor_.in_backward(); }
  bool in_forward() const { return executor_.in_forward(); }
  EngineReport report() const;
  PhaseSeconds take_phase_seconds();
  // Waits for every gather that was begun; before the engine is given up.
  void finish();

 private:
  void unpin(int unit) noexcept override;
  void rethrow_stored();
  Agreement exchange_findings();
  void apply(const Move& move, double scale, double lr);
  PhaseSeconds phase_seconds() const;

  Communicator& comm_;
  std::vector<ParamSpec> specs_;
  EngineOptions options_;
  Ledger ledger_;
  std::unique_ptr<UpdateRule> rule_;
  GatherBudget budget_;
  ShardedState state_;
  Gatherer gatherer_;
  Reducer reducer_;
  Updater updater_;
  Executor executor_;

  std::exception_ptr stored_;  // thrown where nothing may be thrown: by the end of an operator
  std::int64_t num_steps_ = 0;
  std::int64_t num_skipped_ = 0;
  int skipped_in_a_row_ = 0;
  std::int64_t num_departed_ = 0;
  MemoryCount memory_at_update_;
  Traffic untraced_;  // of gathers outside training
  Traffic at_last_step_;
  Traffic step_traffic_;
  PhaseSeconds taken_;
};

// The memory a rank needs, and what a budget leaves for gathered units. Throws ConfigError under "zero.device_memory"
// with the smallest budget that works and the next cheaper stage. `free_bytes`: what "auto" may use.
GatherBudget gather_budget(const DeviceMemory& memory, const std::vector<Unit>& units, int world,
                           const Placement& placement, int num_moments, int stage, std::int64_t free_bytes);

}  // namespace zero
