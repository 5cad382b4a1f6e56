#include "app/report/plan/placed_plan.h"

#include <limits>

#include "zero/engine/place/budgets.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/engine/place/placer.h"
#include "zero/plan/units/estimate.h"

namespace zero {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

bool has_known_gpu(const TrainingPlan& plan) {
  return plan.machine && plan.machine->has_known_gpu();
}

// Requires what an engine requires of host and disk before it allocates; schedule_of() does so for the device.
// `host_bytes`: what "auto" may use of the host. Returns the number of tiles that are worked on ahead.
int require_room(const TrainingPlan& plan, const Placement& placement, const Placement& later,
                 std::int64_t host_bytes) {
  const int shard = mesh_of(plan).shard;
  const OptimizerSpec spec = optimizer_spec(plan);
  const OffloadOptions& offload = plan.options.offload;
  require_disk(offload, state_bytes(plan.units, shard, later, spec, Tier::kDisk).total());
  return tiles_ahead(offload.host_memory, plan.units, shard, placement, later, spec, host_bytes);
}

// Returns the bytes of a rank beside its states, when it follows the schedule. `later`: the placement by then.
PerTier<std::int64_t> beside_states(const TrainingPlan& plan, const Schedule& schedule, const Placement& later,
                                    int depth) {
  const int shard = mesh_of(plan).shard;
  const OptimizerSpec spec = optimizer_spec(plan);
  const std::int64_t staged = staging_bytes(plan.units, shard, schedule.placement, schedule.budget.is_min());
  const std::int64_t parts = schedule.budget.keeps_parts ? secondary_bytes(plan.units, shard, schedule.placement) : 0;
  return {.device = simulate(schedule, plan.units, shard, spec).gathered_peak_bytes + staged + parts,
          .host = tile_bytes(plan.units, shard, later, spec, depth)};
}

}  // namespace

Schedule schedule_of(const TrainingPlan& plan, const Trace& trace) {
  const AttachOptions& options = plan.options;
  const int shard = mesh_of(plan).shard;
  const Placement placement = placement_of(plan);
  const OptimizerSpec spec = optimizer_spec(plan);
  const bool limited = has_known_gpu(plan) && plan.refused.empty();
  const std::int64_t free_bytes =
      limited ? share_of_free(plan.machine->free_bytes, plan.machine->ranks_on_gpu, plan.machine->learned_bytes)
              : kNoLimit;
  GatherBudget budget =
      gather_budget(options.device_memory, plan.units, shard, placement, spec, options.stage, free_bytes,
                    /*or_least=*/limited && plan.machine->learned_bytes > 0);
  budget.overlaps_updates = overlaps_updates(placement, plan.units, shard, spec, options.offload);
  return build_schedule(trace, plan.units, shard, placement, budget);
}

bool may_leave_device(const TrainingPlan& plan) {
  const OffloadOptions& offload = plan.options.offload;
  return !offload.fractions.on_device() || offload.has_lower_room() ||
         plan.options.device_memory.kind == MemoryBudget::Kind::kBytes || has_known_gpu(plan);
}

void describe_device(const TrainingPlan& plan, EngineHost& known) {
  if (plan.machine) known.local_world = plan.machine->ranks;
  if (plan.linked)
    known.open_link = [](Communicator&, Device&) { return std::unique_ptr<DeviceLink>(); };  // never called
  known.device_is_elsewhere = plan.machine && plan.machine->ranks_on_gpu > 0 && !has_known_gpu(plan);
  if (!has_known_gpu(plan)) return;
  known.free_device_bytes = [bytes = plan.machine->free_bytes] { return bytes; };
  known.ranks_on_device = plan.machine->ranks_on_gpu;
  known.beside_on_device = plan.machine->learned_bytes;
}

void require_room_for_fractions(const TrainingPlan& plan) {
  if (plan.options.offload.fractions.on_device()) return;
  const Placement placement = placement_of(plan.options, plan.units, mesh_of(plan));
  require_room(plan, placement, placement, kNoLimit);
}

void place_as_run(TrainingPlan& plan, EngineHost known, const Trace& trace, PlannedComputation computation) {
  const Mesh mesh = mesh_of(plan);
  const AttachOptions& options = plan.options;
  const auto rule = rule_of(options);
  // The placement determines how often units are gathered, and these gathers are part of its cost. So it is computed
  // twice.
  for (int round = 0; round < 2; ++round) {
    const Placer placer(nullptr, mesh, options, plan.units, *rule, known);
    const int depth = require_room(plan, placer.placement(), placer.most_away(),
                                   placer.budgets().device_is_apart() ? placer.budgets().room().host : kNoLimit);
    if (placer.movable())
      plan.movable_disk_bytes =
          state_bytes(plan.units, mesh.shard, placer.most_away(), optimizer_spec(plan), Tier::kDisk).total();
    if (may_leave_device(plan)) {
      plan.tiers = placer.placement().tiers;
      const Schedule schedule = schedule_of(plan, trace);
      count_gathers(schedule, plan.units.size(), computation.step);
      plan.beside = beside_states(plan, schedule, placer.most_away(), depth);
    }
    // If states may move while a model trains, a run measures its computation.
    if (computation.from_run || placer.movable()) known.profile = computation.step;
    plan.predicted = placer.predicted(placer.placement(), computation.step);
  }
}

}  // namespace zero
