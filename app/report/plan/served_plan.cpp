#include "app/report/plan/served_plan.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "zero/base/text/bytes.h"
#include "zero/engine/options/options.h"
#include "zero/plan/served/pushed_part.h"
#include "zero/plan/units/partition.h"

namespace zero {

namespace {

// Returns the units as a worker has them.
std::vector<Unit> whole_units(const TrainingPlan& plan) {
  return plan.options.shards == Cut::kRange ? plan.units : units_of(plan.specs, 1, with_equal_ranges(plan.options));
}

}  // namespace

ServedPlan served_plan(const TrainingPlan& plan) {
  const SyncPlan& sync = plan.options.sync;
  const OptimizerSpec spec = optimizer_spec(plan);
  Placement server = place(3, Reduce::kAuto, 1), worker = place(0, plan.options.reduce, plan.options.accumulate);
  server.fp32_sums = worker.fp32_sums = keeps_fp32_sums(plan.options);
  worker.updated_elsewhere = true;
  const std::vector<Unit> whole = whole_units(plan);
  ServedPlan served{.server = state_bytes(plan.units, sync.servers, server, spec),
                    .worker = state_bytes(whole, 1, worker, spec)};
  const auto weight_bytes = [](const Unit& unit) { return static_cast<std::int64_t>(size_of(unit.dtype)); };
  const auto gradient_bytes = [&](const Unit& unit) { return worker.fp32_sums ? std::int64_t{4} : weight_bytes(unit); };
  std::vector<std::int64_t> pushed_to(static_cast<std::size_t>(sync.servers), 0);
  for (std::size_t index = 0; index < whole.size(); ++index) {
    const Unit& unit = whole[index];
    if (!unit.trainable) continue;
    const std::int64_t gradient = gradient_bytes(unit), weight = weight_bytes(unit);
    const std::int64_t shard = shard_numel(plan.units[index], sync.servers);
    served.pushes += shard * gradient * plan.workers * sync.num_held_pushes();
    served.versions += shard * weight * sync.num_versions();
    served.older += shard * weight * sync.num_older_versions(plan.workers);
    if (sync.compensation > 0) served.compensation += plan.workers * shard * weight;
    for (int server = 0; server < sync.servers; ++server) {
      const std::int64_t part = numel_of(pushed_stretches(unit, plan.units[index], server, sync.servers));
      pushed_to[static_cast<std::size_t>(server)] += part * gradient;
      served.pulled += part * weight;
    }
  }
  for (const std::int64_t pushed : pushed_to) served.pushed += pushed;
  if (served.pushed > 0)
    served.largest_part = static_cast<double>(std::ranges::max(pushed_to)) / static_cast<double>(served.pushed);
  served.blocks = pushed_block_bytes(whole, plan.units, sync.servers, [&](const Unit& unit) {
    return unit.trainable ? std::max(gradient_bytes(unit), weight_bytes(unit)) : weight_bytes(unit);
  });
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
  if (served.blocks > 0)
    text += fmt::format("  and holds {} in which it puts together what a server owns (zero.shards)\n",
                        format_bytes(served.blocks));
  return text;
}

}  // namespace zero
