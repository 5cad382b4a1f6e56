#include "zero/report/served_plan.h"

#include <fmt/format.h>

#include "zero/base/bytes.h"
#include "zero/plan/partition.h"

namespace zero {

ServedPlan served_plan(const TrainingPlan& plan) {
  const SyncPlan& sync = plan.options.sync;
  const OptimizerSpec spec = optimizer_spec(plan);
  Placement worker = place(0, plan.options.reduce, plan.options.accumulate);
  worker.updated_elsewhere = true;
  ServedPlan served{.server = state_bytes(plan.units, sync.servers, place(3, Reduce::kAuto, 1), spec),
                    .worker = state_bytes(plan.units, 1, worker, spec)};
  const bool fp32_sums = plan.options.reduce_dtype == DType::kFloat32;
  for (const Unit& unit : plan.units) {
    if (!unit.trainable) continue;
    const auto gradient = static_cast<std::int64_t>(size_of(fp32_sums ? DType::kFloat32 : unit.dtype));
    const auto weight = static_cast<std::int64_t>(size_of(unit.dtype));
    const std::int64_t shard = shard_numel(unit, sync.servers);
    served.pushes += sync.num_held_pushes() * plan.workers * shard * gradient;
    served.versions += sync.num_versions() * shard * weight;
    served.older += sync.num_older_versions(plan.workers) * shard * weight;
    if (sync.compensation > 0) served.compensation += plan.workers * shard * weight;
    served.pushed += padded_numel(unit, 1) * gradient;
    served.pulled += padded_numel(unit, 1) * weight;
  }
  return served;
}

std::string served_rows(const TrainingPlan& plan) {
  const SyncPlan& sync = plan.options.sync;
  const ServedPlan served = served_plan(plan);
  const auto row = [](std::string_view who, const StateBytes& bytes) {
    return fmt::format("  {:<8} {:>9} {:>8} {:>8} {:>8} {:>8}\n", who, format_bytes(bytes.parameter),
                       format_bytes(bytes.gradient), format_bytes(bytes.master), format_bytes(bytes.moment),
                       format_bytes(bytes.total()));
  };
  std::string text =
      fmt::format("  {:<8} {:>9} {:>8} {:>8} {:>8} {:>8}\n", "", "parameter", "gradient", "master", "moment", "total");
  text += row("a server", served.server) + row("a worker", served.worker);
  text += fmt::format("  sync.mode {}{}: {} and {}\n", name_of(sync.mode),
                      sync.staleness > 0 ? fmt::format(", staleness {}", sync.staleness) : "",
                      format_count(sync.servers, "server"), format_count(plan.workers, "worker"));
  text += fmt::format("  beside its states a server holds at most {} of pushed gradients and {} of older weights\n",
                      format_bytes(served.pushes), format_bytes(served.versions));
  if (served.older > 0)
    text += fmt::format("  and at most {} of versions before that, which slow workers still read\n",
                        format_bytes(served.older));
  if (served.compensation > 0)
    text += fmt::format("  and {} of the weights that workers compute with (sync.compensation)\n",
                        format_bytes(served.compensation));
  text += fmt::format("  a worker sends {} of gradients in a clock, and receives {} of weights\n",
                      format_bytes(served.pushed), format_bytes(served.pulled));
  return text;
}

}  // namespace zero
