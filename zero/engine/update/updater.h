// Updater: runs the optimizer over this rank's part of each unit, parameter by parameter: the queue of units and tiles.
//
//   updater.begin_step(present, units, scale, rates);  // parameters with a gradient on any rank; the order of units
//   for (int unit : units) updater.enqueue(unit, gradient, dtype);
//   updater.pump();                                    // updates that need no wait
//   updater.complete(unit);                            // before its parameters are used
//   updater.finish();                                  // before gradients change
//
// A pass is the work on a tile: RulePass, SumsPass, FactorsPass, MatrixPass, OuterPass. As in torch.optim, a
// parameter without a gradient on any rank keeps its values and moments. An overlapped update does not run in step().
// It runs as its tiles arrive while the model computes, at the latest before an operator needs the unit, so it is
// exact. Bits do not depend on the number of threads, on tiers, or on the time of the update. Local, but with some
// rules begin_step() and enqueue() are Collective. Throws IoError.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "zero/engine/options/options.h"
#include "zero/engine/options/step_report.h"
#include "zero/engine/reduce/device_sums.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/engine/update/factors_pass.h"
#include "zero/engine/update/matrix_pass.h"
#include "zero/engine/update/rule_pass.h"
#include "zero/engine/update/step_values.h"
#include "zero/engine/update/sums_pass.h"
#include "zero/engine/update/update_tiles.h"

namespace zero {

class Updater {
 public:
  // `direction_comm`: see MatrixPass.
  Updater(ShardedState& state, const UpdateRule& rule, const std::vector<ParamSpec>& specs,
          const AttachOptions& options, Communicator& comm, Ledger& ledger, Communicator& direction_comm);

  // Counts a step of every present parameter. `units`: the units to be enqueued, in that order. `scale` multiplies
  // gradients (clip / gradient_divisor()). Reduced gradients must be readable. Collective with a rule that needs sums
  // over whole parameters (LAMB), or with states of rows and columns (Adafactor): SumsPass and FactorsPass run first.
  void begin_step(const std::vector<bool>& present, std::span<const int> units, double scale, const StepRates& rates);
  // Runs `rule` instead of an update; no step is counted. It reads and writes parameters and their last state: of every
  // parameter that had an update, or, if copies train apart, of all trained ones. Used like begin_step(), but enqueue()
  // gets no gradients. The rule must outlive the pass.
  void begin_rule(const UpdateRule& rule, std::span<const int> units);
  // Adds a unit to the queue; before that, it keeps its old values. `gradient`: of state.update_range(unit), valid
  // until the unit is complete; null if it is not on the device. Collective with a rule of whole matrices (Muon), which
  // updates the unit at once, after all units queued before it.
  void enqueue(int unit, const std::byte* gradient, DType dtype);
  // Changes the order of the step's remaining units; `units` must name all of them.
  void reorder(std::span<const int> units);
  // Updates the units before this unit, and this unit. No-op if it is up to date, or not in the queue.
  void complete(int unit);
  // Does the same for a gather. New parameters that are not on their tier yet are copied to their place in `into`,
  // which has update_range(). Returns the number of elements, from the first, that are already on their tier.
  std::int64_t complete_into(int unit, std::byte* into);
  // Returns whether the unit is updated with its parameters on their tier, or not in the queue.
  bool current(int unit);
  // Runs the updates that need no wait. On a device it runs only one tile of the host's updates, then returns so the
  // host can queue the model's operators.
  void pump();
  // Updates a tile while the host waits for a device, if that needs no wait and no function of this class is running.
  bool pump_tile();
  // Updates all units in the queue, and ends reading ahead.
  void finish();
  // Finishes, then calls run(), which may run other passes over tiles(). Its seconds count.
  void run_alone(const std::function<void()>& run);

  UpdateTiles& tiles() { return tiles_; }
  StepValues& values() { return values_; }
  const StepValues& values() const { return values_; }
  double seconds() const { return seconds_; }
  // Returns the part of these seconds in pump_tile().
  double meanwhile_seconds() const { return meanwhile_seconds_; }

 private:
  // Order of lanes on a device that the host cannot read. Updates are queued in kUpdate. enqueue() orders them after
  // the sum of the unit's gradient (kUp) and, if parameters are whole, after the operators that used them (kCompute).
  // finish() orders operators after updates if no gather is in between. A pass of the host transfers states over the
  // link after kUp and kUpdate.
  class AtWork;
  struct QueuedGradient {
    UnitGradient gradient;
    bool given = false;  // enqueue() was called
  };
  void begin_units(std::span<const int> units);
  void begin_pass(std::vector<int> units);
  std::vector<TileRange> ranges_of(std::span<const int> units) const;
  bool whole_matrices(int unit) const { return pass_.is_update() && state_.unit(unit).whole_matrices(); }
  bool given(int unit) const { return unit >= 0 && gradients_[static_cast<std::size_t>(unit)].given; }
  void update_tile(const Tile& tile, std::byte* copy_to = nullptr);

  ShardedState& state_;
  const UpdateRule& rule_;
  Timeline* timeline_;
  StepValues values_;
  UpdateTiles tiles_;
  // For a rule with sums, on a device that the host cannot read.
  std::optional<DeviceSums> device_sums_;
  SumsPass sums_;
  FactorsPass factors_;
  MatrixPass matrices_;
  RulePass pass_;                          // with rule_, or with begin_rule()'s
  std::vector<QueuedGradient> gradients_;  // by unit, of this step
  std::vector<bool> outstanding_;          // by unit: not up to date
  std::vector<bool> matrices_due_;         // by unit of matrices: not in the queue yet
  std::vector<int> order_;                 // units of the pass
  // finish() was called before all units were in the queue: the pass continues with the next unit
  bool paused_ = false;
  int at_work_ = 0;  // running public functions
  double seconds_ = 0;
  double meanwhile_seconds_ = 0;
};

}  // namespace zero
