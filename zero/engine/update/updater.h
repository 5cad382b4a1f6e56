// Updater: runs the optimizer over this rank's part of each unit, parameter by parameter.
//
//   updater.begin_step(present, units, scale, rates);  // parameters with a gradient on any rank; the order of units
//   for (int unit : units) updater.enqueue(unit, gradient, dtype);
//   updater.pump();                                    // updates that need no wait
//   updater.complete(unit);                            // before its parameters are used
//   updater.finish();                                  // before gradients change
//
// Each parameter belongs to one group (weight decay, learning rate) and counts its own steps. As in torch.optim,
// a parameter without a gradient on any rank keeps its values and moments. States off the device are read ahead and
// written behind, tile by tile. An overlapped update does not run in step(). It runs as its tiles arrive while the
// model computes, at the latest before an operator needs the unit, so it is exact. Bits do not depend on the number of
// threads, on tiers, or on the time of the update. Local, but merge() and land() are Collective, and with some rules
// begin_step() and enqueue() are also. Throws IoError.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "zero/base/process/parallel.h"
#include "zero/device/lane_times.h"
#include "zero/engine/options/options.h"
#include "zero/engine/options/step_report.h"
#include "zero/engine/outer/outer_flight.h"
#include "zero/engine/outer/outer_sum.h"
#include "zero/engine/reduce/device_sums.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/engine/update/host_tile.h"

namespace zero {

class Updater {
 public:
  // `direction_comm`: gathers directions of matrices whose units are updated on a device.
  Updater(ShardedState& state, const UpdateRule& rule, const std::vector<ParamSpec>& specs,
          const AttachOptions& options, Communicator& comm, Ledger& ledger, Communicator& direction_comm);

  // Counts a step of every present parameter. `units`: the units to be enqueued, in that order. `scale` multiplies
  // gradients (clip / gradient_divisor()). Reduced gradients must be readable.
  // Collective with a rule that needs sums over whole parameters (LAMB): it reads all gradients and states of this rank
  // once, and exchanges the sums. With states of rows and columns (Adafactor) it first reads the gradients, unit by
  // unit, and updates these states.
  void begin_step(const std::vector<bool>& present, std::span<const int> units, double scale, const StepRates& rates);
  // Runs `rule` instead of an update; no step is counted. It reads and writes parameters and their last state: of every
  // parameter that had an update, or, if copies train apart, of all trained ones. Used like begin_step(), but enqueue()
  // gets no gradients. The rule must outlive the pass.
  void begin_rule(const UpdateRule& rule, std::span<const int> units);
  // Collective. Takes the unit's part of an outer step: all copies take the anchor that they compute from all copies'
  // weights.
  void merge(int unit, const OuterStep& outer, OuterSum& sum);
  // The same in two halves. take_off() puts the unit's differences into the flight: Local. After the flight has
  // arrived, land() moves the anchor and leaves parameters unchanged: Collective.
  void take_off(int unit, const OuterStep& outer, OuterFlight& flight);
  void land(int unit, const OuterStep& outer, OuterFlight& flight);
  // Adds a unit to the queue; before that, it keeps its old values. `gradient`: of state.update_range(unit), valid
  // until the unit is complete; null if it is not on the device. Collective with a rule of whole matrices (Muon), which
  // updates the unit at once, after all units queued before it (MatrixDirections gathers whole directions).
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

  // Returns the number of updates of each parameter.
  const std::vector<std::int64_t>& steps() const { return steps_; }
  void set_steps(std::vector<std::int64_t> steps) { steps_ = std::move(steps); }

  double seconds() const { return seconds_; }
  // Returns the part of these seconds in pump_tile().
  double meanwhile_seconds() const { return meanwhile_seconds_; }
  // Returns the seconds of finished updates, and of sums before them, on a device that the host cannot read.
  double device_seconds();

 private:
  // Order of lanes on a device that the host cannot read. Updates are queued in kUpdate. enqueue() orders them after
  // the sum of the unit's gradient (kUp) and, if parameters are whole, after the operators that used them (kCompute).
  // finish() orders operators after updates if no gather is in between. A pass of the host transfers states over the
  // link after kUp and kUpdate. Sums before an update are computed in kUpdate, after the gradients' copy up (kUp), and
  // the host waits for them (DeviceSums). Rounded sums of rows and columns are copied up in kUp, and kUpdate waits for
  // that. If the host updates a tile of whole device parameters, HostTile copies it down and back. kUpdate waits for
  // the copy back, so waiting for kUpdate is enough. Whole matrices with all states on the device are updated there:
  // directions, products and steps are queued in kUpdate. If directions come from other ranks, the host waits for them
  // (MatrixDirections). The host updates matrices with a state on another tier, and all matrices of a rule that has
  // only host code.
  class AtWork;
  // Position of each state among the pass's arrays; -1: not in the pass.
  struct Slots {
    int parameter = -1;
    int gradient = -1;
    int master = -1;
    std::vector<int> optimizer, scales;  // by state
  };
  struct Gradient {
    const std::byte* data = nullptr;
    DType dtype = DType::kFloat32;
    bool given = false;  // enqueue() was called
  };
  // Element 0 of a tile in each array that its update reads or writes.
  struct TileMemory {
    std::byte* held = nullptr;  // the parameter in the unit's type
    float* parameter = nullptr;
    const std::byte* gradient = nullptr;
    DType gradient_dtype = DType::kFloat32;
    std::array<float*, kMostStates> states{};
    std::array<CodedState, kMostStates> coded{};
    DType held_dtype = DType::kFloat32;
    UpdateSpan span(std::int64_t begin, std::int64_t end) const;
  };
  void begin_units(std::span<const int> units);
  // Times the work that is queued in kUpdate while the span lives.
  LaneSpan time_queued(int unit, std::int64_t bytes) {
    return {lane_times_, Lane::kUpdate, Activity::kUpdate, unit, bytes};
  }
  std::int64_t bytes_of(const Tile& tile) const;
  // Purpose of a pass: an update; sums before it, over parameters or over rows and columns; another rule; directions of
  // whole matrices, and steps along them. For an outer step: differences of parameters from their anchors, residuals
  // that were not sent, the move of parameters and anchors, and the move of only the anchors.
  enum class Pass : std::uint8_t {
    kUpdate,
    kSums,
    kFactors,
    kOtherRule,
    kDirections,
    kSteps,
    kDifferences,
    kResiduals,
    kMerge,
    kAnchors
  };
  static bool reads_gradient(Pass pass);
  static bool reads_parameter(Pass pass);
  static bool writes(Pass pass) { return pass != Pass::kSums && pass != Pass::kFactors && pass != Pass::kDifferences; }
  bool touches(Pass pass, std::size_t state) const;
  Pass queue_pass() const { return pass_rule_ == &rule_ ? Pass::kUpdate : Pass::kOtherRule; }
  std::vector<TileArray> pass_arrays(Pass pass);
  TileMemory memory_of(const Tile& tile, const std::byte* gradient, DType dtype) const;
  // Calls use(param, span) for each present parameter in the tile's `range` of the unit's flat range. Spans are parts
  // of `memory`, the tile's. for_each_part() calls it for one span after the other; for_each_span() cuts spans for the
  // threads.
  template <typename Use>
  void for_each_part(const Tile& tile, const TileMemory& memory, const Shard& range, Use use);
  template <typename Use>
  void for_each_span(const Tile& tile, const TileMemory& memory, const Shard& range, Use use);
  // `on_host`: for the host's code.
  UpdateScalars scalars_of(std::size_t param, bool on_host = true) const;
  // Calls use(tile, memory, range) for this rank's shard of the units, even if this rank updates whole units. Sums are
  // exact, so they do not depend on the rank that computes them.
  template <typename Use>
  void read_shards(std::span<const int> units, Pass pass, Use use);
  void sum_parameters(std::span<const int> units);
  void update_factors(std::span<const int> units);
  void take_factors_to_host(std::span<const int> units);
  bool has_host_tiles(int unit) const;
  bool updates(int unit) const;
  bool whole_matrices(int unit) const { return queue_pass() == Pass::kUpdate && state_.unit(unit).whole_matrices(); }
  void hold_matrix_memory(const AttachOptions& options);
  void update_matrices(int unit);
  void update_matrices_here(int unit);
  void queue_matrices(int unit);
  // Runs a pass over one unit on the host, now, whatever the tiers of its states. Calls change(memory, tile) before a
  // tile's spans, and use(param, span) for each span.
  template <typename Change, typename Use>
  void pass_over(int unit, Pass pass, const Gradient& gradient, Change change, Use use);
  // Does the same for a unit with all states on a device: queue(updates) receives all spans of a tile at once.
  template <typename Change, typename Queue>
  void queue_over(int unit, Pass pass, const Gradient& gradient, Change change, Queue queue);
  template <typename TakeLargest>
  void take_differences(int unit, const OuterStep& outer, float* elements, TakeLargest take_largest);
  void begin_pass(std::vector<int> units);
  std::vector<LinkTransfer> link_transfers(Pass pass) const;
  bool given(int unit) const { return unit >= 0 && gradients_[static_cast<std::size_t>(unit)].given; }
  std::byte* held_whole(int unit) const;  // element 0 of update_range()
  void update_tile(const Tile& tile, std::byte* copy_to = nullptr);
  // bring_whole() points `memory` to host copies of whole parameters and gradients, if the host updates a tile and
  // cannot read the device. send_whole() copies the parameters that it wrote back to `there`.
  void bring_whole(HostTile& whole, const Tile& tile, TileMemory& memory, Pass pass) const;
  void send_whole(HostTile& whole, const Tile& tile, const TileMemory& there, const Shard& range, Pass pass);

  ShardedState& state_;
  const UpdateRule& rule_;
  const UpdateRule* pass_rule_ = nullptr;  // rule of the pass: rule_, or begin_rule()'s
  Communicator& comm_;
  Communicator& direction_comm_;
  Ledger& ledger_;
  Timeline* timeline_;
  LaneTimes lane_times_;
  Slots slots_;
  std::vector<ParameterValues> values_;  // by parameter
  std::vector<MatrixShape> matrices_;    // by parameter
  std::vector<std::int64_t> numels_;     // by parameter
  std::vector<std::int64_t> steps_;      // by parameter
  std::vector<bool> present_;
  std::vector<double> sums_;  // of this step, num_sums() by parameter
  // For a rule with sums, on a device that the host cannot read.
  std::optional<DeviceSums> device_sums_;
  BlockPool host_tiles_;  // pinned memory of HostTile
  Buffer matrix_memory_;  // on a device: for the MatrixDirections of the unit being updated; empty: not needed
  // For this step, by parameter; empty without a FactorRule. If the host cannot read the device, factors_there_ are on
  // the device, and factors_ on the host if it updates a tile of their unit.
  std::vector<Factors> factors_, factors_there_;
  std::vector<Gradient> gradients_;  // by unit, of this step
  std::vector<bool> outstanding_;    // by unit: not up to date
  std::vector<bool> matrices_due_;   // by unit of matrices: not in the queue yet
  std::vector<int> order_;           // units of the pass
  double meanwhile_seconds_ = 0;
  int at_work_ = 0;      // running public functions
  bool queued_ = false;  // an update was queued on the device since the last finish()
  // finish() was called before all units were in the queue: the pass continues with the next unit
  bool paused_ = false;
  double scale_ = 1;
  StepRates rates_;
  ThreadTeam team_;
  double seconds_ = 0;
};

}  // namespace zero
