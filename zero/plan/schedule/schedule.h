// Schedule: a step as a list of actions. It is data: printed, costed, simulated and executed.
//
//   Schedule s = build_schedule(trace, units, world, place(3, Reduce::kAuto, 1), {.capacity_bytes = 64 << 20});
//   print_schedule(s, units);
//   simulate(s, units, world).sent_bytes;        // bytes that a rank will send in a step, exactly
//
// An entry is an event of the trace, and the actions to issue, in order, when the event occurs and before it is served.
// Releases follow Belady's rule: the unit whose next use is farthest is released first. A unit in use stays, even if
// that exceeds the budget. States on a lower tier have their own actions: a prefetch for each gather, an offload after
// each reduction of a gradient. Only build_schedule() decides when an action is issued; without a schedule, Demand
// (demand.h) does. build_schedule() knows no stages: it reads the placement.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "zero/base/numbers/state_spec.h"
#include "zero/plan/schedule/trace.h"
#include "zero/plan/units/placement.h"
#include "zero/plan/units/unit.h"

namespace zero {

enum class ActionKind : std::uint8_t {
  kPrefetch,        // begins to fetch this rank's shard of the unit's parameters from a lower tier
  kGather,          // collects the whole parameter range of `unit` from all ranks' shards
  kGatherGradient,  // collects the whole reduced gradient: the second half of an all-reduce
  kRelease,         // frees the gathered range
  kReduce,          // sums the unit's gradient over ranks; each rank keeps its shard
  kOffload,  // writes that sum to its lower tier when it is complete; always belongs to the reduction just before
  kUpdate    // runs the optimizer over this rank's states of `unit`, on their tiers
};

// The sources of a gather. If a rank has no current secondary part of the unit (zero/plan/units/secondary.h), kParts is
// carried out as kAllAndKeep.
enum class GatherWay : std::uint8_t {
  kAll,         // every rank sends its shard
  kAllAndKeep,  // the same, and this rank keeps its secondary part
  kParts        // only the ranks of the secondary group send the parts that they kept
};

struct Action {
  ActionKind kind = ActionKind::kGather;
  int unit = 0;
  GatherWay way = GatherWay::kAll;  // sources of a kGather
  bool operator==(const Action&) const = default;
};

struct ScheduleEntry {
  Event event;
  std::vector<Action> actions;
};

// Limits the gathered memory of a rank. kMin is "min": one unit at a time, released at once, nothing gathered ahead.
struct GatherBudget {
  static constexpr std::int64_t kMin = -1;
  std::int64_t capacity_bytes = std::numeric_limits<std::int64_t>::max();
  // Elements of parameters off the device that may be prefetched at once. The next unit to gather is always allowed.
  std::int64_t prefetched_numel = 0;
  // Updates overlap the next forward pass. Each ends before its unit is gathered.
  bool overlaps_updates = false;
  // Secondary parts are kept (Placement::secondary_group), and there is memory for those of all units. False if weights
  // stay gathered between uses: there is room for all of them, and a step gathers each unit once.
  bool keeps_parts = false;
  bool is_min() const { return capacity_bytes == kMin; }
};

// The time at which the updates of a step end.
struct UpdateTiming {
  // Each update overlaps the next forward pass, and ends before its unit is gathered. False: it ends in step(), before
  // the next action.
  bool overlapped = false;
  // A step's gradients are applied one step late. From entry free_from[unit] on no entry gathers or prefetches the
  // unit, and after that entry none accesses it or gets a gradient of it. So the unit is updated in the backward pass,
  // as soon as its new gradient is summed. Units that are not free before the pass ends are updated in step().
  bool delayed = false;
  std::vector<std::size_t> free_from;  // by unit: index of an entry; empty without delayed updates
};

struct Schedule {
  Placement placement;
  GatherBudget budget;
  std::vector<ScheduleEntry> entries;  // empty without a trace; see Demand
  std::vector<int> reduce_order;  // units in the order in which their gradients are reduced; the same on every rank
  // Actions of step(), after the global norm is known. They are in the order in which the trace's forward pass first
  // accesses the units. Units of matrices that are updated as wholes come before the others.
  std::vector<Action> step;
  UpdateTiming updates;
};

// Builds the schedule of a trace. An empty trace gives the schedule of the first step: actions on demand, gradients
// reduced in reversed unit order, updates in unit order.
Schedule build_schedule(const Trace& trace, const std::vector<Unit>& units, int world, const Placement& placement,
                        GatherBudget budget);

// Returns the units that step() updates, in its order.
std::vector<int> updated_units(const Schedule& schedule);

// Returns whether a step keeps secondary parts of gathered units.
inline bool keeps_parts(const Placement& placement, const GatherBudget& budget) {
  return placement.secondary_group > 0 && budget.keeps_parts;
}

// Returns whether a backward pass reduces gradients, or only sums them on the rank. `finished_backwards`: the number of
// passes before it in its step.
bool reduces_in_pass(const Placement& placement, int finished_backwards);

// Returns the actions that sum the gradient of `unit` over ranks: a reduction, and an offload unless this rank's shard
// is only on the device.
std::vector<Action> reduce_actions(const Placement& placement, const Unit& unit, int world);

// Bytes of a rank's states that are read from a tier and written to it.
struct TierTraffic {
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;
  bool operator==(const TierTraffic&) const = default;
};

// Predicts the cost of the schedule on a rank.
struct ScheduleCost {
  std::int64_t sent_bytes = 0;           // also the received bytes, if shards have equal sizes
  std::int64_t gathered_peak_bytes = 0;  // most bytes gathered at once
  // Bytes of all reduced shards, sent once to the next copy of the model (mesh.h). A rank sends them num_crossings()
  // times, in addition to sent_bytes. 0: there is one copy.
  std::int64_t crossing_bytes = 0;
  std::int64_t num_gathers = 0;
  // The part of num_gathers and sent_bytes that stays among the ranks of a secondary group.
  std::int64_t num_part_gathers = 0;
  std::int64_t part_sent_bytes = 0;
  std::int64_t num_reduces = 0;
  std::int64_t num_prefetches = 0;
  std::int64_t num_offloads = 0;
  // By tier, for host and disk; on disk in whole pages, as they are read and written. Every trainable unit counts as
  // updated. Without a link, a run reads fewer bytes: parameters that an update passes to the next gather are not
  // fetched again.
  PerTier<TierTraffic> tiers;
  const TierTraffic& of(Tier tier) const { return tiers[tier]; }
};
// Throws InternalError if the schedule reads a unit that is not gathered, releases one twice, gathers parts that were
// not kept, or exceeds its budget. The test that simulates schedules for 1,024 ranks relies on it. `spec`: of the
// update rule; default: Adam's.
ScheduleCost simulate(const Schedule& schedule, const std::vector<Unit>& units, int world,
                      const OptimizerSpec& spec = {});

// Prints one line per event: "access transformer.h.3 | release transformer.h.1, gather transformer.h.4".
std::string print_schedule(const Schedule& schedule, const std::vector<Unit>& units);
// Describes an action: "offload transformer.h.3 to host". For an update it names the tier on which it runs, and the
// states on other tiers.
std::string describe(const Action& action, const std::vector<Unit>& units, const Placement& placement);

// Returns the bytes of a unit's gathered range.
std::int64_t gathered_bytes(const Unit& unit, int world);

}  // namespace zero
