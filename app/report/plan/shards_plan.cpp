#include "app/report/plan/shards_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "zero/base/text/bytes.h"
#include "zero/engine/options/options.h"
#include "zero/plan/units/cut.h"
#include "zero/plan/units/factored.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/weighted_cut.h"

#include "app/report/screen/wrapped.h"

namespace zero {
namespace {

std::vector<ShardsPlan::Owned> owned_by_rank(const TrainingPlan& plan, int owners) {
  const OptimizerSpec spec = optimizer_spec(plan);
  std::vector<ShardsPlan::Owned> owned(static_cast<std::size_t>(owners));
  for (const Unit& unit : plan.units) {
    const std::vector<std::int64_t> numels = owned_numel({unit}, owners);
    for (std::size_t rank = 0; rank < owned.size(); ++rank) {
      owned[rank].numel += numels[rank];
      owned[rank].bytes += unit.trainable
                               ? state_formula_bytes(numels[rank], 1, 3, unit.dtype, spec, unit.matrices()) +
                                     static_cast<double>(factor_bytes(unit, spec))
                               : static_cast<double>(numels[rank]) * static_cast<double>(size_of(unit.dtype));
    }
  }
  return owned;
}

// Returns the whole units as they are cut for `owners`.
std::vector<Unit> cut_for(const std::vector<Unit>& whole, const AttachOptions& options, int owners) {
  if (options.shards != Cut::kWeighted) return cut_units(whole, options.shards, owners);
  std::vector<double> weights = options.shard_weights;
  if (weights.empty()) weights.push_back(1);  // not measured yet, so all are equal
  const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  weights.resize(static_cast<std::size_t>(owners), mean);
  return weighted_units(whole, weights, 0);
}

std::string owned_text(const ShardsPlan::Owned& owned) {
  return fmt::format("{} parameters ({} of states)", format_count(owned.numel),
                     format_bytes(std::llround(owned.bytes)));
}

// Returns a text such as "weighted: by weights 2, 1, 1 the ranks own ...".
std::string weighted_text(const TrainingPlan& plan, const ShardsPlan& shards, std::string_view owner) {
  constexpr std::size_t kMostRanks = 8;
  const std::vector<double>& weights = plan.options.shard_weights;
  if (weights.empty())
    return fmt::format(
        "weighted: a {} owns about {}, as if all had as much memory; a run measures it (or name "
        "zero.shard_weights)",
        owner, owned_text(shards.largest));
  if (weights.size() > kMostRanks)
    return fmt::format("weighted: {}s own {} to {}", owner, owned_text(shards.smallest), owned_text(shards.largest));
  std::string text = fmt::format("weighted: by weights {} the {}s own ", weights_text(weights), owner);
  for (std::size_t rank = 0; rank < shards.by_rank.size(); ++rank)
    text += (rank == 0 ? "" : ", ") + owned_text(shards.by_rank[rank]);
  return text;
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

}  // namespace

ShardsPlan shards_plan(const TrainingPlan& plan) {
  const Mesh mesh = mesh_of(plan);
  const std::vector<ShardsPlan::Owned> owned = owned_by_rank(plan, mesh.shard);
  const auto [smallest, largest] = std::ranges::minmax(owned, {}, &ShardsPlan::Owned::numel);
  ShardsPlan shards{.smallest = smallest, .largest = largest};
  if (plan.options.shards == Cut::kWeighted) shards.by_rank = owned;
  for (const Unit& unit : plan.units) shards.room += shard_numel(unit, mesh.shard);
  if (mesh.copies > 1) return shards;
  const AttachOptions in_ranges = with_equal_ranges(plan.options);
  const std::vector<Unit> units = units_of(plan.specs, plan.world, in_ranges);
  const auto moved = [&](const AttachOptions& options, int others) {
    return moved_share(cut_for(units, options, mesh.shard), mesh.shard, cut_for(units, options, others), others);
  };
  shards.moved_by_joining = moved(plan.options, mesh.shard + 1);
  shards.moved_in_ranges_by_joining = moved(in_ranges, mesh.shard + 1);
  if (mesh.shard == 1) return shards;
  shards.moved_by_leaving = moved(plan.options, mesh.shard - 1);
  shards.moved_in_ranges_by_leaving = moved(in_ranges, mesh.shard - 1);
  return shards;
}

std::string shards_rows(const TrainingPlan& plan) {
  if (plan.options.shards == Cut::kRange) return "";
  const ShardsPlan shards = shards_plan(plan);
  const std::string_view owner = plan.workers > 0 ? "server" : "rank";
  std::string text = "  shards     ";
  text += plan.options.shards == Cut::kWeighted
              ? weighted_text(plan, shards, owner)
              : fmt::format("{}: a {} owns {} to {} parameters ({} to {} of states), in shards with room for {}",
                            name_of(plan.options.shards), owner, format_count(shards.smallest.numel),
                            format_count(shards.largest.numel), format_bytes(std::llround(shards.smallest.bytes)),
                            format_bytes(std::llround(shards.largest.bytes)), format_count(shards.room));
  if (shards.moved_by_joining)
    text += fmt::format(". When a {} joins, {} of the parameters get another owner (in equal ranges {})", owner,
                        percent(*shards.moved_by_joining), percent(*shards.moved_in_ranges_by_joining));
  if (shards.moved_by_leaving)
    text += fmt::format("; when the last one leaves, {} ({})", percent(*shards.moved_by_leaving),
                        percent(*shards.moved_in_ranges_by_leaving));
  if (mesh_of(plan).copies > 1)
    text += ". Ranks join and leave as whole copies of the model: no parameter gets another owner";
  if (plan.options.shards == Cut::kWeighted && !plan.options.shard_weights.empty())
    text +=
        ". Other figures of a " + std::string(owner) + " are those of the largest, and formulas those of equal shards";
  return wrapped(text, 13);
}

}  // namespace zero
