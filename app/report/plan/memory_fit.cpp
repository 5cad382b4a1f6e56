#include "app/report/plan/memory_fit.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/memory/disk/disk_tier.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/weighted_cut.h"

#include "app/report/plan/training_plan.h"

namespace zero {
namespace {

constexpr int kMostMachines = 1 << 14;
constexpr StateFractions kOptimizerOnDisk{.optimizer = {.disk = 1}};
constexpr StateFractions kGradientsToo{.gradient = {.disk = 1}, .optimizer = {.disk = 1}};
constexpr StateFractions kAllOnDisk{.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}};

// The changes of a plan.
struct Variation {
  int stage = 0;
  int machines = 1;
  int group = 0;
  StateFractions fractions{};
  std::int64_t activation_bytes = 0;
};

std::int64_t bytes_on(const TrainingPlan& plan, int world, const Placement& placement, Tier tier) {
  return state_bytes(plan.units, world, placement, optimizer_spec(plan), tier).total();
}

// Returns 0 unless the machine holds whole copies of the model. Otherwise any of its ranks may be the largest.
std::int64_t others_less(const TrainingPlan& plan, int world, const Placement& placement) {
  if (plan.options.shards != Cut::kWeighted || !placement.tiers.empty() || plan.machine->sharers() % world != 0)
    return 0;
  const std::int64_t largest = bytes_on(plan, world, placement, Tier::kDevice);
  std::int64_t less = 0;
  TrainingPlan other = plan;
  for (int rank = 0; rank < world; ++rank) {
    other.units = as_seen_by(std::move(other.units), rank);
    less += largest - bytes_on(other, world, placement, Tier::kDevice);
  }
  return plan.machine->sharers() / world * less;
}

MemoryNeed need_of(const TrainingPlan& plan, int world, const Placement& placement, std::int64_t activations) {
  std::int64_t largest = 0;  // memory in which autograd makes a gradient before the reduction
  for (const Unit& unit : plan.units) largest = std::max(largest, gathered_bytes(unit, world));
  // A GPU's memory does not include the host's.
  const bool on_gpu = plan.machine->ranks_on_gpu > 0;
  const std::int64_t tiles = tile_bytes(plan.units, world, placement, optimizer_spec(plan), /*depth=*/1);
  MemoryNeed need{
      .states = bytes_on(plan, world, placement, Tier::kDevice),
      .working = working_bytes(plan.units, world, placement, /*min_budget=*/true) + largest + (on_gpu ? 0 : tiles),
      .activations = activations,
      .others_less = others_less(plan, world, placement)};
  for (const Tier tier : kLowerTiers) {
    const bool is_the_machines = is_memory(tier) && !on_gpu;
    (is_the_machines ? need.states : need.lower[tier]) += bytes_on(plan, world, placement, tier);
  }
  if (on_gpu) need.lower.host += tiles + plan.machine->host_activation_bytes;
  return need;
}

// Rounds up to whole stripes, as files do.
std::int64_t in_files(std::int64_t bytes) {
  constexpr std::int64_t kStripe = DiskTier::kStripeBytes;
  return (bytes + kStripe - 1) / kStripe * kStripe;
}

// `movable_disk`: bytes of a rank, if states may move.
MemoryFit fit_of(const MemoryNeed& rank, const PlannedMachine& machine, std::int64_t movable_disk = 0) {
  MemoryFit fit{.rank = rank,
                .needed = machine.sharers() * rank.total() - rank.others_less,
                .free = machine.free_bytes,
                .is_known = machine.is_described ? machine.free_bytes > 0 : machine.why_free_not_known.empty()};
  for (const Tier tier : kLowerTiers) {
    TierFit& there = fit.lower[tier];
    const std::int64_t free = machine.lower_free_bytes[tier];
    const std::int64_t movable = tier == kLastTier ? movable_disk : 0;
    there.needed = machine.ranks * (is_memory(tier) ? rank.lower[tier] : in_files(std::max(rank.lower[tier], movable)));
    // If a GPU is not here, neither is its host.
    if (!machine.is_described && (fit.is_known || !is_memory(tier))) there.free = free;
    if (is_memory(tier) ? fit.is_known && machine.has_known_gpu() : !machine.is_described)
      there.lacks = std::max<std::int64_t>(there.needed - free, 0);
  }
  if (!fit.is_known) return fit;
  fit.lacks = std::max<std::int64_t>(fit.needed - fit.free, 0);
  if (machine.leaves_a_fifth)
    fit.lacks =
        std::max(fit.lacks, machine.sharers() * (rank.states + rank.working) - rank.others_less - fit.free / 5 * 4);
  return fit;
}

class Search {
 public:
  explicit Search(const TrainingPlan& plan)
      : plan_(plan),
        now_{.stage = plan.options.stage,
             .group = plan.options.group,
             .activation_bytes = plan.machine->activation_bytes} {}

  std::vector<WayToFit> ways() {
    for (int stage = plan_.options.stage + 1; stage <= 3; ++stage) {
      if (try_stage(stage)) break;
    }
    try_group();
    try_disk();
    Variation checkpointed = now_;
    checkpointed.activation_bytes = plan_.machine->checkpointed_bytes;
    if (checkpointed.activation_bytes > 0) add("--train.checkpoint_activations true", checkpointed);
    try_batch();
    try_machines();
    if (ways_.empty()) try_all();
    return std::move(ways_);
  }

  int lower_stage() const {
    if (plan_.options.shards == Cut::kHash) return -1;  // which needs stage 3
    for (int stage = 0; stage < plan_.options.stage; ++stage) {
      Variation lower = now_;
      lower.stage = stage;
      if (const auto found = fit(lower); found && found->fits()) return stage;
    }
    return -1;
  }

 private:
  // Returns nothing if such a plan is impossible.
  std::optional<MemoryFit> fit(const Variation& variation) const {
    try {
      AttachOptions options = plan_.options;
      options.group = variation.group;
      const Mesh mesh = mesh_of(plan_.world * variation.machines, options);
      const int world = mesh.shard;
      Placement placement = placement_at(plan_, variation.stage);
      set_exchange(placement, mesh, options);
      const bool same_ranks = variation.machines == 1 && variation.group == plan_.options.group;
      if (variation.stage == plan_.options.stage && same_ranks && variation.fractions.on_device())
        placement.tiers = plan_.tiers;
      std::optional<TrainingPlan> cut_anew;
      if (!same_ranks && options.shards != Cut::kRange) {
        cut_anew = plan_;
        cut_anew->units = units_of(plan_.specs, mesh.world(), options);
      }
      const TrainingPlan& plan = cut_anew ? *cut_anew : plan_;
      if (!variation.fractions.on_device()) spread_over_tiers(placement, plan.units, world, variation.fractions);
      placement = as_held(plan, std::move(placement), world);
      return fit_of(need_of(plan, world, placement, variation.activation_bytes), *plan_.machine);
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  }
  bool add(std::string change, const Variation& variation) {
    const auto found = fit(variation);
    if (!found || !found->fits()) return false;
    ways_.push_back(
        {.change = std::move(change), .needed = found->needed, .disk = plan_.machine->ranks * found->rank.lower.disk});
    return true;
  }
  bool try_stage(int stage) {
    Variation other = now_;
    other.stage = stage;
    return add(fmt::format("--zero.stage {}", stage), other);
  }
  bool try_group() {
    if (mesh_of(plan_).copies == 1 || plan_.options.local) return false;
    Variation one_copy = now_;
    one_copy.group = 0;
    return add("--zero.group 0 (all ranks hold one copy of the model)", one_copy);
  }
  bool try_disk() {
    Variation away = now_;
    away.fractions = kOptimizerOnDisk;
    if (add("--zero.disk FOLDER --zero.optimizer '{disk=1}'", away)) return true;
    away.fractions = kGradientsToo;
    if (add("--zero.disk FOLDER --zero.optimizer '{disk=1}' --zero.gradient '{disk=1}'", away)) return true;
    away.fractions = kAllOnDisk;
    return add("--zero.disk FOLDER with optimizer, gradient and parameter on {disk=1}", away);
  }
  // Activations are proportional to the batch.
  std::int64_t activations_of(std::int64_t batch) const {
    return plan_.machine->activation_bytes / plan_.machine->batch * batch;
  }
  bool try_batch() {
    std::int64_t fits = 0, too_many = plan_.machine->batch;
    while (too_many - fits > 1) {
      const std::int64_t batch = (fits + too_many) / 2;
      Variation smaller = now_;
      smaller.activation_bytes = activations_of(batch);
      const auto found = fit(smaller);
      (found && found->fits() ? fits : too_many) = batch;
    }
    if (fits == 0) return false;
    Variation smaller = now_;
    smaller.activation_bytes = activations_of(fits);
    return add(fmt::format("--train.batch {}, with more train.accumulate", fits), smaller);
  }
  bool try_machines() {
    const auto fits = [this](int machines) {
      Variation more = now_;
      more.machines = machines;
      const auto found = fit(more);
      return found && found->fits();
    };
    int enough = 2;
    while (enough <= kMostMachines && !fits(enough)) enough *= 2;
    if (enough > kMostMachines) return false;
    int too_few = enough / 2;
    while (enough - too_few > 1) {
      const int machines = (enough + too_few) / 2;
      (fits(machines) ? enough : too_few) = machines;
    }
    Variation more = now_;
    more.machines = enough;
    return add(fmt::format("--world {} on {} machines like {}", plan_.world * enough, plan_.machine->machines * enough,
                           plan_.machine->machines == 1 ? (plan_.machine->is_described ? "it" : "this") : "these"),
               more);
  }
  bool try_all() {
    Variation all = now_;
    all.stage = 3;
    all.fractions = kAllOnDisk;
    if (plan_.machine->checkpointed_bytes > 0) all.activation_bytes = plan_.machine->checkpointed_bytes;
    if (add("--zero.stage 3, all states on a disk and train.checkpoint_activations", all)) return true;
    all.activation_bytes /= plan_.machine->batch;
    return add("--zero.stage 3, all states on a disk, train.checkpoint_activations and --train.batch 1", all);
  }

  const TrainingPlan& plan_;
  const Variation now_;
  std::vector<WayToFit> ways_;
};

}  // namespace

MemoryFit fit_of(const TrainingPlan& plan) {
  const MemoryNeed rank = need_of(plan, mesh_of(plan).shard, placement_of(plan), plan.machine->activation_bytes);
  MemoryFit fit = fit_of(rank, *plan.machine, plan.movable_disk_bytes);
  fit.refused = !plan.refused.empty();
  return fit;
}

std::vector<WayToFit> ways_to_fit(const TrainingPlan& plan) {
  return Search(plan).ways();
}

int lower_stage_that_fits(const TrainingPlan& plan) {
  return Search(plan).lower_stage();
}

}  // namespace zero
