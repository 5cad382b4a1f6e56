#include "app/report/page/report_file.h"

#include <algorithm>
#include <cmath>

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
Figure most_total(const Json& report, const char* key) {
  const Json* rank = rank_with_most(part(report, key), total_of);
  return rank ? total_of(*rank) : std::nullopt;
}
Figure most_of(const Json& report, const char* key) {
  const Json* rank = rank_with_most(part(report, key), figure);
  return rank ? figure(*rank) : std::nullopt;
}
// Returns the sum of both directions, if at least one is known.
Figure sum_of(const Figure& a, const Figure& b) {
  return a || b ? Figure(a.value_or(0) + b.value_or(0)) : std::nullopt;
}

void add_tier(const Json& report, const char* tier, const char* key, const Figure& peak, RecordedRun& run) {
  const Json* rank = rank_with_most(part(report, key), total_of);
  if (rank == nullptr || (*total_of(*rank) == 0 && peak.value_or(0) == 0)) return;
  RecordedMemory memory{.tier = tier, .total = *total_of(*rank), .peak = peak.value_or(0)};
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
  figures.val_loss = figure(part(report, "val_loss"));
  figures.perplexity = figure(part(report, "val_perplexity"));
  for (const char* key : {"val_accuracy", "accuracy"})
    if (!figures.accuracy) figures.accuracy = figure(part(report, key));
  figures.units_per_second = figure(part(report, "tokens_per_second"));
  if (!figures.units_per_second) figures.units_per_second = figure(part(report, "rows_per_second"));
  figures.step_seconds = figure(part(report, "step_s_median"));
  figures.utilization = figure(part(report, "utilization"));
  figures.device_peak = most_total(report, "peak_memory_bytes");
  figures.host_peak = most_total(report, "peak_host_memory_bytes");
  figures.disk_bytes = most_total(report, "disk_bytes");
  figures.sent_bytes = most_of(report, "sent_bytes_per_step");
  figures.disk_moved =
      sum_of(most_of(report, "disk_read_bytes_per_step"), most_of(report, "disk_written_bytes_per_step"));
  figures.link_moved = sum_of(most_of(report, "link_up_bytes_per_step"), most_of(report, "link_down_bytes_per_step"));
  figures.exposed_seconds = figure(part(part(report, "profile"), "exposed_seconds"));
  figures.skipped_steps = figure(part(report, "skipped_steps"));
  figures.rewinds = figure(part(report, "rewinds"));
  figures.state_formula = figure(part(part(report, "formula"), "state_bytes"));
  figures.sent_formula = figure(part(part(report, "formula"), "sent_bytes"));
  figures.sent_planned = figure(part(report, "planned_sent_bytes"));
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

// Returns "2 ranks", or "1 server and 3 workers". report.json's world counts ranks that hold states: here the servers.
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

void read_report(const std::filesystem::path& path, RecordedRun& run) {
  const Json report = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!report.is_object()) {
    run.notes.push_back("report.json is damaged: it is left out");
    return;
  }
  run.done = true;
  add_figures_of(report, run.figures);
  add_probe(report, run);
  add_tier(report, "device", "memory_bytes", run.figures.device_peak, run);
  add_tier(report, "host", "host_memory_bytes", run.figures.host_peak, run);
  add_tier(report, "disk", "disk_bytes", std::nullopt, run);
  add_times(report, run);
  add_facts(report, run);
}

}  // namespace zero::page
