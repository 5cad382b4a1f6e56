// Updater: the optimizer over what this rank holds of a unit, parameter by parameter.
//
// Each parameter belongs to one group (weight decay, learning-rate scale) and counts its own steps: one that got no
// gradient on any rank is left alone, its moments too, as in torch.optim. States off the device are read ahead of the
// update and written back behind it, tile by tile, through the whole step. An overlapped update does not happen in
// step(): it happens when an operator needs the unit, or before, as its tiles arrive while the model computes. That
// is exact: no operator sees a unit before its update. A unit that is not in the queue yet keeps its values of before.
//
//   updater.begin_step(present, units, scale, lr);     // which parameters got a gradient anywhere; the order to come
//   for (int unit : units) updater.enqueue(unit, gradient, dtype);
//   updater.pump();                                    // what can be done without waiting
//   updater.complete(unit);                            // before its parameters are used
//   updater.finish();                                  // before gradients change
//
// Of a rule that needs sums over whole parameters (LAMB) begin_step() reads all that this rank updates once before, and
// is Collective: the ranks' sums are exchanged. Of one with states of rows and columns (Adafactor) it reads the gradients
// before that, unit by unit, and updates these states. With a rule of whole matrices (Muon), enqueue() of their unit is
// Collective: it updates the unit at once, after all units queued before it (MatrixDirections brings whole directions).
// merge() and land() are Collective, too. Everything else is Local. The same bits for any number of threads, wherever
// states lie, and whenever the update happens. Throws IoError.
//
// On a device that the host cannot read, updates are queued in kUpdate, and no more than that orders them: enqueue() puts them
// behind the sum of the unit's gradient (kUp) and, where parameters are whole, behind the operators that used them (kCompute);
// finish() puts operators behind them where no gather comes between. A pass that the host makes takes states by the link,
// which comes after kUp and kUpdate. Sums before an update are made in kUpdate, behind the gradients' way up (kUp), and the host
// waits for them (DeviceSums); rounded sums of rows and columns go up in kUp, and kUpdate comes after that.
// Where the host updates a tile of parameters that are whole on the device, these come and go by HostTile, and kUpdate comes after
// their way up: so whoever comes after an update comes after that.
// Whole matrices whose states all lie on the device are updated there: directions, products and steps are queued in kUpdate. Where
// directions come from other ranks, the host waits for these (MatrixDirections). Matrices of which a state lies elsewhere the host
// updates as a whole, as it does with a rule that has the host's code alone.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "zero/base/process/parallel.h"
#include "zero/device/lane_times.h"
#include "zero/engine/options/options.h"
#include "zero/engine/outer/outer_flight.h"
#include "zero/engine/outer/outer_sum.h"
#include "zero/engine/reduce/device_sums.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/engine/update/host_tile.h"

namespace zero {

class Updater {
 public:
  // `direction_comm`: over which directions of matrices come together where their units are updated on a device.
  Updater(ShardedState& state, const UpdateRule& rule, const std::vector<ParamSpec>& specs,
          const EngineOptions& options, Communicator& comm, Ledger& ledger, Communicator& direction_comm);

  // Counts a step of every present parameter. `units`: those that enqueue() will be called for, in that order. `scale`
  // multiplies gradients (clip / gradient_divisor()). `lr`: of this step, before group scales. Reduced gradients may be read.
  void begin_step(const std::vector<bool>& present, std::span<const int> units, double scale, double lr);
  // Runs `rule` in place of an update; no step is counted. It reads and writes parameters and their last state: of every
  // parameter that had an update, or, where copies train apart, of all that are trained. As begin_step(), but for
  // gradients: enqueue() with none. The rule outlives the pass.
  void begin_rule(const UpdateRule& rule, std::span<const int> units);
  // The unit's part of an outer step: all copies take the anchor that they make of what each has come to. Collective.
  void merge(int unit, const OuterStep& outer, OuterSum& sum);
  // The same in two halves. What the unit has come to goes into the flight: Local. And, when the flight has arrived, the anchor
  // moves, and parameters stay as they are: Collective.
  void take_off(int unit, const OuterStep& outer, OuterFlight& flight);
  void land(int unit, const OuterStep& outer, OuterFlight& flight);
  // `gradient`: of state.update_range(unit), until the unit is complete; null where it does not lie on the device.
  void enqueue(int unit, const std::byte* gradient, DType dtype);
  // What is left of the step comes in this order from here on; nothing else may be left.
  void reorder(std::span<const int> units);
  // Updates what comes before the unit, and the unit. No-op for one that is up to date, or not in the queue.
  void complete(int unit);
  // As complete(), for a gather: new parameters that are still being written to their tier, or are updated only now,
  // are copied to their place in `into`, which has update_range(). Returns the number of elements, from the first, that
  // lie on their tier already.
  std::int64_t complete_into(int unit, std::byte* into);
  // Updated, and its parameters are where they lie; or not in the queue.
  bool current(int unit);
  // Updates what can be without waiting; on a device, of what the host updates one tile: it goes on to queue the model's operators.
  void pump();
  // While the host waits for a device: updates a tile, if one can be without waiting and no part of this class is at work.
  bool pump_tile();
  // All that is in the queue is updated, and nothing is read ahead of what was not.
  void finish();

  // How many updates each parameter has had.
  const std::vector<std::int64_t>& steps() const { return steps_; }
  void set_steps(std::vector<std::int64_t> steps) { steps_ = std::move(steps); }

  double seconds() const { return seconds_; }
  // Of these, in pump_tile().
  double meanwhile_seconds() const { return meanwhile_seconds_; }
  // For which updates and sums before them ran on a device that the host cannot read, as far as it has done them.
  double device_seconds();

 private:
  class AtWork;
  // Position of each state among the pass's arrays; -1: not one of them.
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
  // Times what is queued in kUpdate while it lives.
  LaneSpan time_queued(int unit, std::int64_t bytes) {
    return {lane_times_, Lane::kUpdate, Activity::kUpdate, unit, bytes};
  }
  std::int64_t bytes_of(const Tile& tile) const;
  // What a pass is for: to update, or to make sums before that, of parameters, and of rows and columns; to run another rule
  // in place of an update; of whole matrices, to make directions, and to step along them; of an outer step, to see how far
  // parameters are from their anchors, to keep what of that was not sent, and to move both, or the anchors alone.
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
  // Calls use(param, span) for what of a tile `range`, of the unit's flat range, has of a parameter that got a gradient.
  // Spans are parts of `memory`, which is the tile's. One after the other; for_each_span() cuts them for the threads.
  template <typename Use>
  void for_each_part(const Tile& tile, const TileMemory& memory, const Shard& range, Use use);
  template <typename Use>
  void for_each_span(const Tile& tile, const TileMemory& memory, const Shard& range, Use use);
  // `on_host`: for the host's code.
  UpdateScalars scalars_of(std::size_t param, bool on_host = true) const;
  // Calls use(tile, memory, range) for this rank's shard of the units, also where it updates everything: sums are exact, so
  // that nobody sees who made them.
  template <typename Use>
  void read_shards(std::span<const int> units, Pass pass, Use use);
  void sum_parameters(std::span<const int> units);
  void update_factors(std::span<const int> units);
  void take_factors_to_host(std::span<const int> units);
  bool has_host_tiles(int unit) const;
  bool updates(int unit) const;
  bool whole_matrices(int unit) const { return queue_pass() == Pass::kUpdate && state_.unit(unit).whole_matrices(); }
  void hold_matrix_memory(const EngineOptions& options);
  void update_matrices(int unit);
  void update_matrices_here(int unit);
  void queue_matrices(int unit);
  // A pass over one unit, now, by the host, wherever its states lie. Calls change(memory, tile) before a tile's spans, and
  // use(param, span) for each of them.
  template <typename Change, typename Use>
  void pass_over(int unit, Pass pass, const Gradient& gradient, Change change, Use use);
  // The same of a unit whose states all lie on a device: queue(updates) has all spans of a tile at once.
  template <typename Change, typename Queue>
  void queue_over(int unit, Pass pass, const Gradient& gradient, Change change, Queue queue);
  template <typename TakeLargest>
  void take_differences(int unit, const OuterStep& outer, float* elements, TakeLargest take_largest);
  void begin_pass(std::vector<int> units);
  std::vector<LinkTransfer> link_transfers(Pass pass) const;
  bool given(int unit) const { return unit >= 0 && gradients_[static_cast<std::size_t>(unit)].given; }
  std::byte* held_whole(int unit) const;  // element 0 of update_range()
  void update_tile(const Tile& tile, std::byte* copy_to = nullptr);
  // Where the host takes a tile, and cannot read the device: `memory` of what is whole there is its own from here on; and
  // parameters that it has written go back to where they were, `there`.
  void bring_whole(HostTile& whole, const Tile& tile, TileMemory& memory, Pass pass) const;
  void send_whole(HostTile& whole, const Tile& tile, const TileMemory& there, const Shard& range, Pass pass);

  ShardedState& state_;
  const UpdateRule& rule_;
  const UpdateRule* pass_rule_ = nullptr;  // of the pass: rule_, or that of begin_rule()
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
  // Of a rule with sums, on a device that the host cannot read.
  std::optional<DeviceSums> device_sums_;
  BlockPool host_tiles_;  // pinned memory of HostTile
  Buffer matrix_memory_;  // on a device: of the MatrixDirections of the unit that is updated there; empty: none is
  // Of this step, by parameter; empty without a FactorRule. On a device that the host cannot read each lies there, and where a
  // tile of its unit is updated on the host, in memory of the host, too.
  std::vector<Factors> factors_, factors_there_;
  std::vector<Gradient> gradients_;  // by unit, of this step
  std::vector<bool> outstanding_;    // by unit: not up to date
  std::vector<bool> matrices_due_;   // by unit of matrices: not in the queue yet
  std::vector<int> order_;           // of the pass
  double meanwhile_seconds_ = 0;
  int at_work_ = 0;      // public functions that are under way
  bool queued_ = false;  // an update runs on the device, and finish() has not come since
  bool paused_ = false;  // finish() came before all units were in the queue: the pass goes on with the next one
  double scale_ = 1;
  double lr_ = 0;
  ThreadTeam team_;
  double seconds_ = 0;
};

}  // namespace zero
