#include "app/report/page/report_file.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/files/file.h"
#include "zero/base/text/bytes.h"
#include "zero/memory/account/ledger.h"

#include "app/report/page/recorded_run.h"

namespace zero::page {
namespace {

using Json = nlohmann::json;
using Figure = RunFigures::Figure;

// Returns null if the key is missing.
const Json& part(const Json& json, std::string_view key) {
  static const Json nothing;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() ? *found : nothing;
}
Figure figure(const Json& json) {
  return json.is_number() ? Figure(json.get<double>()) : std::nullopt;
}
std::string words(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  return json.is_number() ? json.dump() : "";
}

// Returns the rank whose `value` is largest, from an array with an entry for each rank.
template <typename Value>
const Json* rank_with_most(const Json& ranks, Value value) {
  const Json* most = nullptr;
  if (!ranks.is_array()) return most;
  for (const Json& rank : ranks)
    if (value(rank) && (most == nullptr || *value(rank) > *value(*most))) most = &rank;
  return most;
}
Figure total_of(const Json& rank) {
  return figure(part(rank, "total"));
}
Figure most_total(const Json& report, std::string_view key) {
  const Json* rank = rank_with_most(part(report, key), total_of);
  return rank ? total_of(*rank) : std::nullopt;
}
// Returns a number that was written as null if it was not finite: then NaN. Nothing: the key is missing.
Figure figure_or_nan(const Json& report, const char* key) {
  return report.contains(key) && report[key].is_null() ? Figure(std::nan("")) : figure(part(report, key));
}

using FigureOfRanks = std::vector<Figure>;

// Returns `value` of each rank, from an array with an entry for each rank; empty if the report has no such array.
template <typename Value>
FigureOfRanks of_ranks(const Json& ranks, Value value) {
  FigureOfRanks figures;
  if (!ranks.is_array()) return figures;
  for (const Json& rank : ranks) figures.push_back(value(rank));
  return figures;
}
// Returns each rank's sum, as far as it is known.
FigureOfRanks sum_of(FigureOfRanks a, const FigureOfRanks& b) {
  a.resize(std::max(a.size(), b.size()));
  for (std::size_t rank = 0; rank < b.size(); ++rank)
    if (b[rank]) a[rank] = a[rank].value_or(0) + *b[rank];
  return a;
}
Figure most_of(const FigureOfRanks& figures) {
  Figure most;
  for (const Figure& one : figures)
    if (one && (!most || *one > *most)) most = one;
  return most;
}
FigureOfRanks figures_of_ranks(const Json& report, const char* key) {
  return of_ranks(part(report, key), figure);
}

// Returns the bytes of states of a rank on a tier.
Figure states_of(const Json& rank) {
  Figure sum;
  for (const MemoryTag tag : {MemoryTag::kParameter, MemoryTag::kGradient, MemoryTag::kMaster, MemoryTag::kMoment})
    if (const Figure bytes = figure(part(rank, name_of(tag)))) sum = sum.value_or(0) + *bytes;
  return sum;
}

// Returns the values of the rank that differ most, and of these the largest.
std::optional<PlannedAndMeasured> worst_of(const FigureOfRanks& planned, const FigureOfRanks& measured) {
  std::optional<PlannedAndMeasured> worst;
  std::pair<double, double> most(-1, 0);
  for (std::size_t rank = 0; rank < std::min(planned.size(), measured.size()); ++rank) {
    if (!planned[rank] || !measured[rank]) continue;
    const double plan = *planned[rank], found = *measured[rank];
    const double differs = plan == found ? 0 : std::abs(found - plan) / std::max(std::abs(plan), 1.0);
    if (!worst || std::pair(differs, found) > most) {
      worst = PlannedAndMeasured{plan, found};
      most = {differs, found};
    }
  }
  return worst;
}

// An earlier report has the plan of rank 0 only, which is compared with the largest measured value.
std::optional<PlannedAndMeasured> balance_of(const FigureOfRanks& planned, const Figure& of_rank_0,
                                             const FigureOfRanks& measured) {
  return planned.empty() ? worst_of({of_rank_0}, {most_of(measured)}) : worst_of(planned, measured);
}

void add_balance(const Json& report, RecordedRun& run) {
  const FigureOfRanks sent = figures_of_ranks(report, "sent_bytes_per_step");
  FigureOfRanks states;
  for (const TierFacts& tier : kTierTable)
    states = sum_of(std::move(states), of_ranks(part(report, tier.held_key), states_of));
  const Json& formula = part(report, "formula");
  run.states = balance_of(figures_of_ranks(report, "state_formula_bytes_of_ranks"),
                          figure(part(formula, "state_bytes")), states);
  run.sent_by_plan = balance_of(figures_of_ranks(report, "planned_sent_bytes_of_ranks"),
                                figure(part(report, "planned_sent_bytes")), sent);
  run.sent_by_formula =
      balance_of(figures_of_ranks(report, "sent_formula_bytes_of_ranks"), figure(part(formula, "sent_bytes")), sent);
}

void add_tier(const Json& report, const TierFacts& tier, RecordedRun& run) {
  const Json* rank = rank_with_most(part(report, tier.held_key), total_of);
  const double peak = tier.peak_key.empty() ? 0 : run.figures.most_bytes[tier.tier].value_or(0);
  if (rank == nullptr || (*total_of(*rank) == 0 && peak == 0)) return;
  RecordedMemory memory{.tier = std::string(tier.name), .total = *total_of(*rank), .peak = peak};
  for (const MemoryTag tag : kAllMemoryTags)
    memory.tags.emplace_back(name_of(tag), figure(part(*rank, name_of(tag))).value_or(0));
  run.memory.push_back(std::move(memory));
}

void add_times(const Json& report, RecordedRun& run) {
  const auto seconds = [](const Json& json) { return figure(json).value_or(0); };
  if (const Json& predicted = part(report, "predicted"); predicted.is_object())
    run.predicted = PhaseTimes{.forward = seconds(part(part(predicted, "forward"), "seconds")),
                               .backward = seconds(part(part(predicted, "backward"), "seconds")),
                               .update = seconds(part(part(predicted, "update"), "seconds")),
                               .total = seconds(part(predicted, "seconds")),
                               .bound = words(part(predicted, "bound"))};
  if (const Json& profile = part(report, "profile"); profile.is_object())
    run.measured = PhaseTimes{.forward = seconds(part(profile, "forward_seconds")),
                              .backward = seconds(part(profile, "backward_seconds")),
                              .update = seconds(part(profile, "update_seconds")),
                              .exposed = seconds(part(profile, "exposed_seconds")),
                              .total = seconds(part(report, "step_s_median"))};
}

void add_figures_of(const Json& report, RunFigures& figures) {
  figures.steps = figure(part(report, "steps"));
  if (const Json& losses = part(report, "losses"); losses.is_array() && !losses.empty())
    figures.loss = losses.back().is_null() ? Figure(std::nan("")) : figure(losses.back());
  figures.val_loss = figure_or_nan(report, "val_loss");
  figures.perplexity = figure_or_nan(report, "val_perplexity");
  for (const char* key : {"val_accuracy", "accuracy"})
    if (!figures.accuracy) figures.accuracy = figure_or_nan(report, key);
  figures.units_per_second = figure(part(report, "tokens_per_second"));
  if (!figures.units_per_second) figures.units_per_second = figure(part(report, "rows_per_second"));
  figures.step_seconds = figure(part(report, "step_s_median"));
  figures.utilization = figure(part(report, "utilization"));
  for (const TierFacts& tier : kTierTable)
    figures.most_bytes[tier.tier] = most_total(report, tier.peak_key.empty() ? tier.held_key : tier.peak_key);
  figures.sent_bytes = most_of(figures_of_ranks(report, "sent_bytes_per_step"));
  figures.disk_moved = most_of(sum_of(figures_of_ranks(report, "disk_read_bytes_per_step"),
                                      figures_of_ranks(report, "disk_written_bytes_per_step")));
  figures.link_moved = most_of(
      sum_of(figures_of_ranks(report, "link_up_bytes_per_step"), figures_of_ranks(report, "link_down_bytes_per_step")));
  figures.exposed_seconds = figure(part(part(report, "profile"), "exposed_seconds"));
  figures.skipped_steps = figure(part(report, "skipped_steps"));
  figures.rewinds = figure(part(report, "rewinds"));
}

// Returns the number of ranks that compute. report.json's world counts ranks that hold states: with servers, only
// these.
Figure computing_ranks(const Json& report) {
  const Figure workers = figure(part(part(report, "served"), "workers"));
  return workers ? workers : figure(part(report, "world"));
}

// Returns the conditions on which a rank's probe of matrix products depends; empty if the report lacks them.
std::string probed_on(const Json& report, const ConfigurationKeys& keys) {
  const auto key = [&](std::string_view name) {
    const auto found = keys.find(name);
    return found == keys.end() ? "" : found->second;
  };
  const std::string host = words(part(report, "host")), threads = words(part(report, "threads"));
  if (host.empty() || threads.empty()) return "";
  std::string text = fmt::format("{}, {}, threads: {}", host, words(part(report, "processor")), threads);
  const std::string device = key("run.device");
  if (!device.empty() && device != "\"cpu\"")  // a GPU multiplies matrices in the model's type
    text += fmt::format(", {} {} {}", device, key("train.dtype"), key("train.matmul"));
  return text;
}

void add_probe(const Json& report, RecordedRun& run) {
  const Figure peak = figure(part(report, "peak_flops")), ranks = computing_ranks(report);
  const std::string where = probed_on(report, run.configuration);
  if (!peak || *peak <= 0 || !ranks || *ranks < 1 || where.empty()) return;
  run.figures.peak_flops = peak;
  run.figures.num_computing = *ranks;
  run.figures.probed_on = where;
}

std::string count_in_words(const Json& json) {
  const Figure count = figure(json);
  return count && std::abs(*count) < 1e18 ? format_count(std::llround(*count)) : "";
}

void add_facts(const Json& report, RecordedRun& run) {
  const auto add = [&](const char* label, std::string text) {
    if (!text.empty()) run.facts.emplace_back(label, std::move(text));
  };
  add("model", words(part(report, "model")));
  add("parameters", count_in_words(part(report, "num_parameters")));
  add("type", words(part(report, "dtype")));
  add("ran on", ranks_in_words(report));
  add("stage", words(part(report, "stage")));
  add("transport", words(part(report, "transport")));
  add("disk", words(part(report, "disk")));
  add("activations offloaded to", words(part(report, "activations_offloaded_on")));
  add("threads a rank", words(part(report, "threads")));
  add("ended", words(part(report, "date")));
  add("machine", words(part(report, "host")));
  add("processor", words(part(report, "processor")));
  add("zero.cpp", words(part(report, "version")));
  add("libtorch", words(part(report, "libtorch")));
  add("sha256 of the parameters", words(part(report, "parameters_sha256")));
  add("command", words(part(report, "command")));
}

}  // namespace

std::string ranks_in_words(const Json& report) {
  const auto counted = [](const Json& json, std::string_view noun) {
    const Figure count = figure(json);
    return count && std::abs(*count) < 1e18 ? format_count(std::llround(*count), noun) : "";
  };
  const Json& served = part(report, "served");
  const std::string servers = counted(part(served, "servers"), "server");
  const std::string workers = counted(part(served, "workers"), "worker");
  if (!servers.empty() && !workers.empty()) return servers + " and " + workers;
  return counted(part(report, "world"), "rank");
}

void read_report(const std::filesystem::path& path, RecordedRun& run) {
  const Json report = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!report.is_object()) {
    run.notes.push_back("report.json is damaged: it is left out");
    return;
  }
  run.done = true;
  add_figures_of(report, run.figures);
  add_probe(report, run);
  for (const TierFacts& tier : kTierTable) add_tier(report, tier, run);
  add_times(report, run);
  add_balance(report, run);
  add_facts(report, run);
}

}  // namespace zero::page
