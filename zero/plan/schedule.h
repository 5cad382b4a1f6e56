// Schedule: a step as a list of actions. Data, not code: it is printed, costed, simulated and replayed.
//
//   Schedule s = build_schedule(trace, units, world, place(3, Reduce::kAuto, 1), {.capacity_bytes = 64 << 20});
//   print_schedule(s, units);
//   simulate(s, units, world).sent_bytes;        // what a rank will send in a step, to the byte
//
// An entry is an event of the trace and the actions to issue when it occurs, in order, before the event is served.
// Release follows Belady's rule: the unit whose next use is farthest goes first. A unit in use stays, even where that
// exceeds the budget. States on a lower tier have actions of their own: a prefetch for each gather of such a shard, an
// offload after each reduction of such a gradient. build_schedule() alone decides which action comes when; where there
// is no schedule, Demand (demand.h) does. build_schedule() knows no stages: it reads the placement.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "zero/base/state_spec.h"
#include "zero/plan/placement.h"
#include "zero/plan/trace.h"
#include "zero/plan/unit.h"

namespace zero {

enum class ActionKind : std::uint8_t {
  kPrefetch,        // this rank's shard of the unit's parameters begins to come from a lower tier
  kGather,          // the whole parameter range of `unit` from every rank's shard
  kGatherGradient,  // the whole reduced gradient: what an all-reduce does after its reduce-scatter
  kRelease,         // the gathered range is given back
  kReduce,          // the sum over ranks of the unit's gradient, each rank its shard
  kOffload,         // that sum goes to its lower tier as soon as it is complete: always of the reduction just before
  kUpdate           // the optimizer over this rank's states of `unit`, on the tiers where they lie
};

// Whom a gather asks. Of a unit without a part that is current (zero/plan/secondary.h) all are asked, whatever it says.
enum class GatherWay : std::uint8_t {
  kAll,         // every rank for its shard
  kAllAndKeep,  // and this rank keeps its secondary part of what comes
  kParts        // the ranks of the secondary group alone, for the parts that they kept
};

struct Action {
  ActionKind kind = ActionKind::kGather;
  int unit = 0;
  GatherWay way = GatherWay::kAll;  // of kGather
  bool operator==(const Action&) const = default;
};

struct ScheduleEntry {
  Event event;
  std::vector<Action> actions;
};

// How much gathered memory a rank may hold. kMin is "min": one unit at a time, released at once, nothing ahead.
struct GatherBudget {
  static constexpr std::int64_t kMin = -1;
  std::int64_t capacity_bytes = std::numeric_limits<std::int64_t>::max();
  // Elements of parameters off the device that may be prefetched at once. The unit that is gathered next always may.
  std::int64_t prefetched_numel = 0;
  // Updates end beside the next forward pass, each before its unit is gathered.
  bool overlaps_updates = false;
  // Secondary parts are kept (Placement::secondary_group), and there is memory for those of all units. False where weights
  // stay gathered from one use to the next: there is room for all of them, and a step gathers each once.
  bool keeps_parts = false;
  bool is_min() const { return capacity_bytes == kMin; }
};

// When the updates of a step are done.
struct UpdateTiming {
  // Each update ends beside the next forward pass, before its unit is gathered. False: in step(), before the next
  // action.
  bool overlapped = false;
  // A step's gradients are applied a step late. A unit is then updated when its new gradient is summed, from entry
  // free_from[unit] on: no entry after that one accesses the unit or gets a gradient of it, and neither that entry nor
  // a later one gathers or prefetches the unit. The other units are updated in step().
  bool delayed = false;
  std::vector<std::size_t> free_from;  // by unit; empty where nothing is delayed
};

struct Schedule {
  Placement placement;
  GatherBudget budget;
  std::vector<ScheduleEntry> entries;  // empty: no trace yet; see Demand
  std::vector<int> reduce_order;  // units in the order in which their gradients are reduced, the same on every rank
  // Issued by step(), after the global norm is known; in the order in which the trace's forward first accesses the
  // units, those of matrices that are updated as wholes before the others.
  std::vector<Action> step;
  UpdateTiming updates;
};

// An empty trace gives the schedule of the first step: on demand, gradients reduced in reversed unit order,
// updates in unit order.
Schedule build_schedule(const Trace& trace, const std::vector<Unit>& units, int world, const Placement& placement,
                        GatherBudget budget);

// Does a step keep secondary parts of what it gathers?
inline bool keeps_parts(const Placement& placement, const GatherBudget& budget) {
  return placement.secondary_group > 0 && budget.keeps_parts;
}

// Does a backward pass reduce gradients, or sum them on the rank? `finished_backwards`: passes of its step before it.
bool reduces_in_pass(const Placement& placement, int finished_backwards);

// The actions that sum the gradient of `unit` over ranks: a reduction, and an offload where not all of this rank's
// shard lies on the device.
std::vector<Action> reduce_actions(const Placement& placement, const Unit& unit, int world);

// Bytes of a rank's states that leave a tier, and that come to it.
struct TierTraffic {
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;
  bool operator==(const TierTraffic&) const = default;
};

// What a rank does when it replays the schedule, without doing it.
struct ScheduleCost {
  std::int64_t sent_bytes = 0;           // = received, where shards have equal sizes
  std::int64_t gathered_peak_bytes = 0;  // the most gathered at once
  // Of the model's copies (mesh.h): what it takes to send all reduced shards to the next one. A rank sends them
  // num_crossings() times, beside sent_bytes. 0: there is one copy.
  std::int64_t crossing_bytes = 0;
  std::int64_t num_gathers = 0;
  // Of these gathers and sent bytes, those among the ranks of a secondary group alone.
  std::int64_t num_part_gathers = 0;
  std::int64_t part_sent_bytes = 0;
  std::int64_t num_reduces = 0;
  std::int64_t num_prefetches = 0;
  std::int64_t num_offloads = 0;
  // By tier, of host and disk; on disk in whole pages, as it is read and written. Every trainable unit counts as
  // updated. Without a link, parameters that an update hands to the gather after it are not fetched again: a run then
  // reads fewer bytes than these.
  std::array<TierTraffic, kNumTiers> tiers{};
  const TierTraffic& of(Tier tier) const { return tiers[static_cast<std::size_t>(tier)]; }
};
// Throws InternalError when the schedule would read a unit that is not gathered, release one twice, gather parts that nobody
// kept, or exceed its budget: the test that replays schedules for 1,024 ranks relies on it. `spec`: of the update rule; Adam's by default.
ScheduleCost simulate(const Schedule& schedule, const std::vector<Unit>& units, int world,
                      const OptimizerSpec& spec = {});

// One line an event: "access transformer.h.3 | release transformer.h.1, gather transformer.h.4".
std::string print_schedule(const Schedule& schedule, const std::vector<Unit>& units);
// "offload transformer.h.3 to host"; an update says on which tier it runs, and which states lie on another tier.
std::string describe(const Action& action, const std::vector<Unit>& units, const Placement& placement);

// Bytes of a unit's gathered range.
std::int64_t gathered_bytes(const Unit& unit, int world);

}  // namespace zero
