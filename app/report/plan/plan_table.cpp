#include "app/report/plan/plan_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "zero/base/numbers/topk_blocks.h"
#include "zero/base/text/bytes.h"
#include "zero/engine/update/matrix_directions.h"
#include "zero/plan/schedule/schedule.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/partition.h"

#include "app/report/plan/served_plan.h"
#include "app/report/plan/shards_plan.h"
#include "app/report/screen/wrapped.h"

namespace zero {
namespace {

std::string bytes_text(double bytes) {
  return format_bytes(std::llround(bytes));
}

// NumberedName: the parts of a unit's name: "transformer.h.3 (matrices)" -> "transformer.h.", 3 and " (matrices)".
// Without such a number: the whole name, and -1.
struct NumberedName {
  std::string_view prefix, suffix;
  int number = -1;
};

NumberedName numbered(std::string_view name) {
  const std::string_view module = name.substr(0, name.find(" ("));
  const auto end = module.find_last_not_of("0123456789");
  if (end == std::string_view::npos || end + 1 == module.size() || module[end] != '.') return {name, {}, -1};
  return {module.substr(0, end + 1), name.substr(module.size()), std::stoi(std::string(module.substr(end + 1)))};
}

bool follows(const Unit& last, const Unit& next) {
  const NumberedName a = numbered(last.name), b = numbered(next.name);
  return a.number >= 0 && b.number == a.number + 1 && a.prefix == b.prefix && a.suffix == b.suffix &&
         last.numel == next.numel && last.dtype == next.dtype && last.trainable == next.trainable;
}

// Returns a row with the name in a column, and the text in the next column: "  memory     a rank needs ...".
std::string named_row(std::string_view name, std::string_view text) {
  return wrapped(fmt::format("  {:<10} {}", name, text), 13);
}

std::string unit_row(const TrainingPlan& plan, const Unit& first, const Unit& last, std::size_t count) {
  std::string name = first.name;
  if (count > 1) {
    const NumberedName begin = numbered(first.name);
    name = fmt::format("{}{}-{}{} ({} x)", begin.prefix, begin.number, numbered(last.name).number, begin.suffix, count);
  }
  const int shard = mesh_of(plan).shard;
  const std::int64_t whole = gathered_bytes(first, shard);
  const std::int64_t shard_bytes = shard_numel(first, shard) * static_cast<std::int64_t>(size_of(first.dtype));
  return fmt::format("  {:<31} {:>13} {:>11} {:>11}{}\n", name, format_count(num_parameters(first)),
                     format_bytes(whole), format_bytes(shard_bytes), first.trainable ? "" : "  frozen");
}

// Equal blocks share a row, even if a block is several units.
std::string unit_rows(const TrainingPlan& plan) {
  std::string rows;
  std::vector<bool> shown(plan.units.size(), false);
  for (std::size_t begin = 0; begin < plan.units.size(); ++begin) {
    if (shown[begin]) continue;
    std::size_t last = begin, count = 1;
    for (std::size_t next = begin + 1; next < plan.units.size(); ++next) {
      if (shown[next] || !follows(plan.units[last], plan.units[next])) continue;
      shown[next] = true;
      last = next;
      ++count;
    }
    rows += unit_row(plan, plan.units[begin], plan.units[last], count);
  }
  return rows;
}

// Stages 0 and 1 hold the whole gradient, so summing micro-batches first costs them no memory. With leaves it costs
// partial sums of whole units. Without leaves a run refuses it if sums stay in fp32.
std::string reduce_row(const TrainingPlan& plan, std::span<const int> stages) {
  const AttachOptions& options = plan.options;
  const bool below_2 = std::ranges::any_of(stages, [](int stage) { return stage < 2; });
  if (!below_2 || plan.world == 1 || options.accumulate == 1 || options.reduce == Reduce::kLast) return "";
  if (options.reduce_dtype && options.leaves == 0) return "";
  const Mesh mesh = mesh_of(plan);
  AttachOptions summing_here = options;
  summing_here.reduce = Reduce::kLast;
  const StageCost last = cost_of(plan.units, mesh, summing_here, placement_at(summing_here, mesh, 1), 1);
  const std::int64_t more = last.state.total() - cost_of(plan, 1).state.total();
  return wrapped(fmt::format("  with train.reduce = \"last\" stages 0 and 1 send {} instead, hold {}, and {}",
                             format_bytes(last.sent), more > 0 ? format_bytes(more) + " more" : "as much",
                             options.leaves > 0 ? "change no bit" : "end with other last bits"),
                 4);
}

// Text for gathers with a codec, which stage 2 does not use. K micro-batches gather each unit 2 K times, or only once.
std::string fewer_parameters(const AttachOptions& options) {
  if (options.accumulate == 1) return "half as many parameters";
  return fmt::format("1/{} as many parameters", 2 * options.accumulate);
}

std::string state_columns(const StateBytes& s) {
  return fmt::format("{:>8} {:>8} {:>8} {:>8} {:>8}", format_bytes(s.parameter), format_bytes(s.gradient),
                     format_bytes(s.master), format_bytes(s.moment), format_bytes(s.total()));
}

std::string stage_row(int stage, const StageCost& cost, bool marked) {
  return fmt::format("{}stage {} {} {:>8} {:>8} {:>8}\n", marked ? '>' : ' ', stage, state_columns(cost.state),
                     bytes_text(cost.state_formula), format_bytes(cost.sent), bytes_text(cost.sent_formula));
}

// The tiers of the planned stage's states, if not all are on the device.
std::string tier_rows(const TrainingPlan& plan) {
  std::string rows;
  if (plan.tiers.empty()) return rows;
  for (const Tier tier : kAllTiers)
    rows += fmt::format(
        "  {:<6} {}\n", name_of(tier),
        state_columns(state_bytes(plan.units, mesh_of(plan).shard, placement_of(plan), optimizer_spec(plan), tier)));
  return rows;
}

std::string beside_row(const TrainingPlan& plan) {
  if (!plan.beside) return "";
  std::string row =
      fmt::format("  beside them at most {} on the device, gathered and reduced", format_bytes(plan.beside->device));
  if (plan.beside->host > 0) row += fmt::format(", and {} on the host for the disk", format_bytes(plan.beside->host));
  return wrapped(row, 4);
}

// Joins an error's text and its remedy, which begins a line.
std::string in_one_line(std::string text) {
  for (std::size_t at = text.find("\n  "); at != std::string::npos; at = text.find("\n  ")) text.replace(at, 3, "; ");
  return text;
}

std::string lack_of(const TierFit& fit) {
  return fit.lacks == 0 ? "they fit" : format_bytes(fit.lacks) + " lack";
}

std::string host_verdict(const TierFit& host) {
  if (!host.free) return "; its free memory is not known here";
  return fmt::format("; {} are free here: {}", format_bytes(*host.free), lack_of(host));
}

std::string disk_verdict(const TierFit& disk) {
  if (!disk.free) return "";
  return fmt::format("; {} are free: {}", format_bytes(*disk.free), lack_of(disk));
}

// Returns rows with the need ("  memory     a rank needs at least 23.4 MiB: ..."), whether the machine has it, and
// changes that would fit.
std::string memory_rows(const TrainingPlan& plan) {
  if (!plan.machine) return "";
  const MemoryFit fit = fit_of(plan);
  const MemoryNeed& rank = fit.rank;
  const PlannedMachine& machine = *plan.machine;
  std::string rows =
      named_row("memory", fmt::format("a rank needs at least {}: states {}, transients {}, activations {} ({})",
                                      format_bytes(rank.total()), format_bytes(rank.states), format_bytes(rank.working),
                                      format_bytes(rank.activations),
                                      machine.learned_bytes > 0 ? "of an earlier run" : "estimated"));
  std::string verdict;
  const int sharers = machine.sharers();
  const bool is_this = machine.machines == 1 && !machine.is_described;
  const std::string of = machine.ranks_on_gpu > 0 ? "a GPU" : is_this ? "this machine" : "a machine";
  if (!fit.is_known) {
    rows += named_row(
        "", fmt::format("{} of {} {} {}; its free memory is not known here: {}", format_count(sharers, "rank"), of,
                        sharers == 1 ? "needs" : "need", format_bytes(fit.needed), machine.why_free_not_known));
  } else if (fit.fits()) {
    const int lower = lower_stage_that_fits(plan);
    verdict = lower < 0 ? "it fits" : fmt::format("it fits, and so does stage {}", lower);
    if (rank.lower.host > 0) verdict += fmt::format(", with {} a rank on the host", format_bytes(rank.lower.host));
  } else if (fit.lacks == 0) {
    verdict = "it does not fit";
  } else {
    verdict = fmt::format("it does not fit, {} lack{}", format_bytes(fit.lacks),
                          fit.needed <= fit.free ? " (a fifth is left to activations)" : "");
  }
  if (fit.is_known)
    rows +=
        named_row("", fmt::format("{} of {} {} {}, beside the program itself; {} {}: {}", format_count(sharers, "rank"),
                                  of, sharers == 1 ? "needs" : "need", format_bytes(fit.needed), format_bytes(fit.free),
                                  machine.is_described       ? "are there in the cluster"
                                  : machine.ranks_on_gpu > 0 ? fmt::format("are free on {}", machine.gpu)
                                                             : "are free here",
                                  verdict));
  if (!plan.refused.empty()) rows += named_row("", "a run is refused: " + in_one_line(plan.refused));
  const TierFit &host = fit.lower.host, &disk = fit.lower.disk;
  if (host.needed > 0)
    rows += named_row(
        "host", fmt::format("{} of {} machine {} {} of its main memory for states{}",
                            format_count(machine.ranks, "rank"), is_this && fit.is_known ? "this" : "a",
                            machine.ranks == 1 ? "takes" : "take", format_bytes(host.needed), host_verdict(host)));
  if (disk.needed > 0)
    rows += named_row(
        "disk",
        fmt::format("{} of {} machine {} {} of files there{}{}", format_count(machine.ranks, "rank"),
                    is_this ? "this" : "a", machine.ranks == 1 ? "puts" : "put", format_bytes(disk.needed),
                    plan.movable_disk_bytes > 0 ? ", with room for all states that may move" : "", disk_verdict(disk)));
  if (fit.fits()) return rows;
  const std::vector<WayToFit> ways = ways_to_fit(plan);
  rows += named_row("", ways.empty() ? "nor with activation checkpoints, one sample at a time and all states on a disk"
                                     : "what would fit, and what a machine then needs:");
  for (const WayToFit& way : ways)
    rows += wrapped(fmt::format("{:15}{}: {}{}", "", way.change, format_bytes(way.needed),
                                way.disk > 0 ? fmt::format(", and {} of the disk", format_bytes(way.disk)) : ""),
                    17);
  return rows;
}

// Bytes between copies, which are the same at every stage.
std::string copies_rows(const TrainingPlan& plan) {
  const Mesh mesh = mesh_of(plan);
  if (mesh.copies == 1) return "";
  const StageCost cost = cost_of(plan, plan.options.stage);
  const std::string copies =
      fmt::format("{} of the model, each on {} rank{}", mesh.copies, mesh.shard, mesh.shard == 1 ? "" : "s");
  if (plan.options.local) {
    const LocalSteps& local = *plan.options.local;
    const bool parts = local.fragments > 1;
    std::string when =
        fmt::format("After every {} steps an outer step merges {}: a rank sends {} (formula {}) to other copies then",
                    local.steps, parts ? fmt::format("each of {} fragments", local.fragments) : "them",
                    format_bytes(cost.outer.between_copies), bytes_text(cost.outer_formula));
    if (parts) when += ", a fragment at a time";
    if (local.overlap > 0) when += fmt::format(", while {} are computed", format_count(local.overlap, "step"));
    return named_row(
        "copies", fmt::format("{}, train apart (sync.mode local): no gradient crosses between them. {}", copies, when));
  }
  return named_row(
      "copies",
      fmt::format("{}; a rank sends {} (formula {}) of gradients in {} to other copies, in the mean over the copies",
                  copies, format_bytes(cost.sent_between_copies), bytes_text(cost.sent_between_copies_formula),
                  plan.options.wire.outer == WireCodec::kNone ? "fp32" : name_of(plan.options.wire.outer)));
}

// The bytes that secondary groups keep, and those that stay within them.
std::string secondary_row(const TrainingPlan& plan) {
  const auto cost = secondary_cost(plan);
  if (!cost) return "";
  return named_row(
      "secondary",
      fmt::format("groups of {} neighbours keep gathered weights together, {} a rank, unless device_memory has room "
                  "for all weights: a rank sends {} (formula {}) within its group, and {} to other groups",
                  plan.options.secondary_group, format_bytes(cost->kept), format_bytes(cost->sent_within),
                  bytes_text(cost->sent_within_formula), format_bytes(cost->sent_between)));
}

// The exchanges that a codec shortens.
std::string wire_row(const TrainingPlan& plan) {
  const WireCodecs& wire = plan.options.wire;
  std::string coded;
  const auto add = [&](WireCodec codec, std::string_view what) {
    if (codec != WireCodec::kNone) coded += fmt::format("{}{} as {}", coded.empty() ? "" : ", ", what, name_of(codec));
  };
  add(wire.gather, "parameters (at stage 3)");
  add(wire.reduce, "gradients");
  add(wire.outer, plan.options.local ? "outer steps" : "gradients between copies");
  if (!coded.empty()) coded += fmt::format(", with a scale for each {} elements", kWireBlock);
  if (wire.outer_topk > 0)
    coded +=
        fmt::format("{}of outer steps the {} largest of each {} elements; each copy keeps the rest for its next one",
                    coded.empty() ? "" : "; ", topk_of_block(kTopKBlock, wire.outer_topk), kTopKBlock);
  return coded.empty() ? "" : named_row("wire", coded);
}

std::string sums_row(const TrainingPlan& plan) {
  if (plan.options.sums == RankSums::kOrdered) return "";
  return named_row(
      "sums",
      "NCCL adds gradients of ranks up, in their own type and in its own order: bits depend on NCCL, and on the "
      "number of ranks (zero.reduce)");
}

std::string flop_text(double flops) {
  if (flops >= 1e12) return fmt::format("{:.1f} TFLOP", flops / 1e12);
  if (flops >= 1e9) return fmt::format("{:.1f} GFLOP", flops / 1e9);
  return fmt::format("{:.1f} MFLOP", flops / 1e6);
}

// The work of a rule of matrices (muon) on whole matrices.
std::string matrices_row(const TrainingPlan& plan) {
  const auto rule = rule_of(plan.options);
  if (rule->matrices() == nullptr) return "";
  const double flops = matrix_flops(plan.units, mesh_of(plan).shard, placement_of(plan), *rule->matrices());
  if (flops == 0) return "";
  return named_row("matrices",
                   fmt::format("{} completes matrices of which a rank updates a part: {} a step on the rank with most",
                               name_of(plan.options.optimizer), flop_text(flops)));
}

std::string passes_row(const TrainingPlan& plan) {
  const auto passes = update_passes(plan);
  if (!passes) return "";
  std::string text = fmt::format("{} makes {} passes over its parameters: sums over whole parameters come first",
                                 name_of(plan.options.optimizer), passes->num_passes);
  if (passes->factors_first) text += ", and before these it reads gradients of matrices for their rows and columns";
  for (const Tier tier : kLowerTiers)
    if (const std::int64_t bytes = passes->bytes[tier]; bytes > 0)
      text += fmt::format("; the {} of master copies and moments on {} are read {} times a step", format_bytes(bytes),
                          name_of(tier), passes->num_passes);
  return named_row("passes", text);
}

std::string computation_text(const Computation& computation, int world) {
  switch (computation.from) {
    case ComputationFrom::kNowhere:
      break;
    case ComputationFrom::kRun:
      return fmt::format(
          "computation{} measured by the run of --profile{}{}", computation.on_gpu ? " and rates of the GPU" : "",
          computation.world == world || computation.world == 0 ? "" : " on " + format_count(computation.world, "rank"),
          std::abs(computation.scale - 1) < 1e-3
              ? ""
              : fmt::format(", times {:.2f} for the samples of a rank", computation.scale));
    case ComputationFrom::kEstimate:
      return fmt::format(
          "computation estimated: {} a step at {}/s, matrix products probed here{}: the least time. Other operators, "
          "and "
          "what each takes to begin, are left out: a small model's step takes longer. --profile RUN has all of it from "
          "a "
          "run",
          flop_text(computation.flops), flop_text(computation.flops_per_second),
          computation.crowd > 1 ? fmt::format(", {:.3g} threads to a core", computation.crowd) : "");
  }
  return "without the model's computation";
}

// Returns rows with the prediction, and the source of the computation:
// "  predicted  forward 412 ms (compute), backward 800 ms (compute), update 310 ms (disk): 1.52 s, bound by compute".
std::string predicted_rows(const TrainingPlan& plan) {
  if (!plan.predicted) return plan.why_not_predicted.empty() ? "" : named_row("time", plan.why_not_predicted);
  const PredictedStep& predicted = *plan.predicted;
  std::string text;
  for (const StepPhase phase : kAllStepPhases) {
    const double seconds = predicted.seconds(phase);
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", name_of(phase), format_seconds(seconds),
                        seconds > 0 ? fmt::format(" ({})", name_of(predicted.bound(phase))) : "");
  }
  text += fmt::format(": {} a step, bound by {}", format_seconds(predicted.total()), name_of(predicted.bound()));
  if (!plan.without_disk.empty()) text += "; without the disk, " + plan.without_disk;
  std::string rows = named_row("predicted", text) + named_row("", computation_text(plan.computation, plan.world));
  if (plan.world > 1)
    rows += named_row("", fmt::format("communication is left out: add the time in which a rank sends {} a step",
                                      format_bytes(cost_of(plan, plan.options.stage).sent)));
  return rows;
}

}  // namespace

std::string plan_table(const TrainingPlan& plan, std::span<const int> stages) {
  std::string text =
      fmt::format("plan: {}, {} parameters, stage {} on {}\n", plan.model, format_count(num_parameters(plan.specs)),
                  plan.options.stage, format_count(plan.world, plan.workers > 0 ? "server" : "rank"));
  text += fmt::format("  {:<31} {:>13} {:>11} {:>11}\n", "unit", "parameters", "gathered", "a shard");
  text += unit_rows(plan);
  if (plan.workers > 0) return text + served_rows(plan) + tier_rows(plan) + shards_rows(plan);
  text += fmt::format(" a rank {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "parameter", "gradient", "master",
                      "moment", "total", "formula", "sends", "formula");
  for (const int stage : stages)
    text += stage_row(stage, cost_of(plan, stage), /*marked=*/stages.size() > 1 && stage == plan.options.stage);
  text += tier_rows(plan);
  text += copies_rows(plan);
  text += secondary_row(plan);
  text += shards_rows(plan);
  text += wire_row(plan);
  text += sums_row(plan);
  text += beside_row(plan);
  text += memory_rows(plan);
  text += matrices_row(plan);
  text += passes_row(plan);
  text += predicted_rows(plan);
  text += reduce_row(plan, stages);
  if (mesh_of(plan).shard > 1 && std::ranges::find(stages, 3) != stages.end())
    text += wrapped(
        fmt::format(
            "  stage 3 gathers each unit twice a micro-batch, unless device_memory has room to keep it until the last "
            "backward pass; with that room it sends {}",
            plan.options.wire.gather == WireCodec::kNone ? "what stage 2 sends" : fewer_parameters(plan.options)),
        4);
  return text;
}

}  // namespace zero
