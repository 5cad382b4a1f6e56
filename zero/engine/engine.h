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

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "zero/base/error.h"
#include "zero/engine/delayed_update.h"
#include "zero/engine/executor.h"
#include "zero/engine/gathered_unit.h"
#include "zero/engine/options.h"
#include "zero/engine/placer.h"
#include "zero/engine/rebalancer.h"
#include "zero/engine/replicas.h"
#include "zero/engine/step_report.h"
#include "zero/engine/step_sync.h"
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
  void load(int unit, const std::byte* whole, DType dtype);

  GatheredUnit use(int unit, Use why);
  // Local. What was used is also written: stored when the last use ends.
  void mark_written(int unit);
  // Contiguous, in the parameter's dtype.
  void add_gradient(int param, const std::byte* gradient);
  // The end of a micro-batch that is not the step's last.
  void end_micro_batch();
  StepReport step(double lr, const StepLimits& limits = {});

  // Collective. The unit's whole range in full precision (the master where there is one), on every rank, for as long as
  // `read` takes; `read` is Local. As finish() does, it applies a gradient that waits: later steps are others then.
  void read_full_precision(int unit, const std::function<void(std::span<const float>)>& read);

  // Collective; between the last backward pass of a step and step(), which goes on as if nobody had read. The unit's
  // whole gradient in fp32: the average over ranks (and micro-batches, where they are averaged), before clipping; zeros
  // where no rank has one. Throws ConfigError at any other time.
  void read_gradient(int unit, const std::function<void(std::span<const float>)>& read);
  // The same: the norm of each parameter's gradient; 0 for a frozen one.
  std::vector<double> gradient_norms();

  // Collective; between steps, of which it changes nothing. Do the ranks still hold the same of what each holds whole?
  // Throws ConfigError where gradients wait for a step(), or while parameters are gathered.
  ReplicaCheck compare_replicas();

  // Of checkpoints. Collective: ends everything that was begun, as finish() does, and gives up gathered units; then the
  // states may be read or written, Locally, until the next use or step.
  // Where gradients wait for a step(), or parameters are gathered, it throws ConfigError: `key` and `what` are its words.
  void pause(std::string_view key = "checkpoint", std::string_view what = "saved or loaded");
  // "parameter", and the moments as torch.optim calls them.
  std::vector<std::string> state_names() const;
  int num_saved_states(int unit) const { return state_.num_saved_states(unit); }
  DType saved_dtype(int unit, int state) const { return state_.saved_dtype(unit, state); }
  // As ShardedState's. What the caller's function throws comes back, and the engine goes on; an IoError of a disk where
  // states lie ends it, as everywhere.
  void read_shard(int unit, int state, const ShardedState::ReadVisit& visit);
  void write_held(int unit, int state, const ShardedState::WriteFill& fill);
  Shard held(int unit, int state) const { return state_.held(unit, state); }
  EngineProgress progress() const;
  void set_progress(const EngineProgress& progress);
  Ledger& ledger() { return ledger_; }

  // Local.
  const std::vector<ParamSpec>& specs() const { return specs_; }
  const std::vector<Unit>& units() const { return state_.units(); }
  const Schedule& schedule() const { return executor_.schedule(); }
  const EngineOptions& options() const { return options_; }
  std::byte* data(int unit) const { return gatherer_.data(unit); }
  Communicator& communicator() const { return comm_; }
  bool in_backward() const { return executor_.in_backward(); }
  bool in_forward() const { return executor_.in_forward(); }
  EngineReport report() const;
  const Link* link() const { return link_.get(); }  // null where none stands
  PhaseSeconds take_phase_seconds();
  // Waits for everything that was begun, and applies what was delayed. Throws ConfigError where that would change
  // parameters which a step has begun to use, or that a scope holds; `ends`: nothing is computed with them any more.
  void finish(bool ends = false);
  // Collective, when parameters have their first values. Before the first step: where memory is short by now, states
  // make room. What others take until that step ends, the reserve is for.
  void settle();

 private:
  void unpin(int unit) noexcept override;
  void rethrow_stored();
  // What a failed read or write leaves behind is no state to go on from: every later call throws the same error, which
  // names rank and unit.
  template <typename Body>
  auto fatal_if_io_fails(Body body);
  void fail(const IoError& error);
  StepSync sync_step(const StepLimits& limits);
  int num_summed(int passes) const;
  double finish_gradients();
  void failing_for_good(const std::function<void()>& body);
  void require_between_steps(std::string_view key, std::string_view what) const;
  void bring(int unit, Use why);
  void refuse_half_updated(int unit, Use why) const;
  void begin_backward();
  StepReport take_step(double lr, const StepLimits& limits);
  // `summed`: how many gradients the mean is taken over; num_summed().
  void update(const StepSync& agreed, double norm, int summed, double lr);
  std::vector<int> update_order() const;
  void release_delayed();
  void apply_delayed(bool ends);
  void apply(const Action& action);
  void rebalance(std::int64_t wanted_bytes);
  void learn_placement();
  std::int64_t move_states(const std::vector<UnitTiers>& tiers, GatherBudget budget);
  std::string where_states_lie() const;
  StepProfile profile() const;
  double exchange_seconds() const;
  PredictedStep predicted() const;
  std::int64_t untouched_bytes() const;
  void count_traffic();
  PhaseSeconds phase_seconds() const;

  Communicator& comm_;
  std::vector<ParamSpec> specs_;
  EngineOptions options_;
  Ledger ledger_;
  std::unique_ptr<UpdateRule> rule_;
  Placer placer_;
  GatherBudget budget_;
  std::unique_ptr<DiskTier> disk_;  // null where nothing lies there
  std::unique_ptr<Link> link_;      // null where none stands
  ShardedState state_;
  Gatherer gatherer_;
  Reducer reducer_;
  Updater updater_;
  std::optional<DelayedUpdate> delayed_;
  Executor executor_;
  PassClock clock_, exchange_clock_;      // of what the passes compute, and exchange between ranks
  std::optional<Rebalancer> rebalancer_;  // where memory is watched

  std::exception_ptr failed_;  // an IoError: thrown by every call from then on
  std::exception_ptr stored_;  // thrown where nothing may be thrown: by the end of an operator
  std::int64_t num_steps_ = 0;
  std::int64_t num_taken_ = 0;  // by this process, those that were skipped too
  std::int64_t num_skipped_ = 0;
  std::int64_t num_delayed_ = 0;
  int skipped_in_a_row_ = 0;
  std::int64_t num_mismatches_ = 0;
  std::int64_t num_replans_ = 0;
  std::int64_t moved_bytes_ = 0;
  std::array<MemoryCount, kNumTiers> memory_at_update_;
  DiskTraffic disk_at_last_step_, disk_of_step_;
  LinkTraffic link_at_last_step_, link_of_step_;
  double exchanged_at_last_step_ = 0, exchanged_untraced_ = 0, exchanged_in_step_ = 0;
  Traffic untraced_;  // of gathers outside training
  Traffic at_last_step_;
  Traffic step_traffic_;
  PhaseSeconds taken_;
};

// The memory a rank needs, and what a budget leaves for gathered units. Throws ConfigError under "zero.device_memory"
// with the smallest budget that works and the next cheaper stage. `free_bytes`: what "auto" may use.
GatherBudget gather_budget(const TierMemory& memory, const std::vector<Unit>& units, int world,
                           const Placement& placement, int num_moments, int stage, std::int64_t free_bytes);

// Where every use of a unit begins with a gather, that is where its update must be done, and not before: what has to
// come from elsewhere comes while units before it compute. `placement`: where states may come to lie.
bool overlaps_updates(const Placement& placement, const std::vector<Unit>& units, int world, int num_moments,
                      const OffloadOptions& options);

// How many tiles of what lies on disk a budget of host memory lets a rank read ahead, and write behind: 1 to
// ShardedState::kDefaultDepth. Throws ConfigError under "zero.host_memory" with the smallest budget that works.
// `later`: where states may come to lie, with more of them on disk.
int tiles_ahead(const TierMemory& memory, const std::vector<Unit>& units, int world, const Placement& placement,
                const Placement& later, int num_moments, std::int64_t free_bytes);

// May `bytes` of a rank's states lie on disk? Looks at options alone, at no disk. Throws ConfigError: under "zero.disk"
// where no folder is named, under "zero.disk_memory" where a rank may have less.
void require_disk(const OffloadOptions& options, std::int64_t bytes);

// Bytes on the device that gathering and reducing take beside the states; minimum: one unit at a time.
std::int64_t working_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool minimum);
// Of these, reducing alone.
std::int64_t staging_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool minimum);
// Bytes on the host that tiles of what lies on disk take.
std::int64_t tile_bytes(const std::vector<Unit>& units, int world, const Placement& placement, int num_moments,
                        int depth);

}  // namespace zero
