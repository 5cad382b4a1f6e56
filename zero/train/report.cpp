#include "zero/train/report.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/bytes.h"

namespace zero {
namespace {

using Json = nlohmann::ordered_json;

std::span<const double> counted(const std::vector<double>& seconds) {
  return std::span(seconds).subspan(seconds.size() > kWarmupSteps ? kWarmupSteps : 0);
}

Json memory_json(const MemoryCount& count, std::int64_t total) {
  Json json = Json::object();
  for (const MemoryTag tag : kAllMemoryTags) json[std::string(name_of(tag))] = count[tag];
  json["total"] = total;
  return json;
}

double utilization(const RunReport& r) {
  double peak_flops = 0;
  for (const RankReport& rank : r.ranks) peak_flops += rank.peak_flops;
  const double median = median_step_seconds(r.step_seconds);
  return median > 0 && peak_flops > 0 ? r.flops_per_step / median / peak_flops : 0;
}

// The rank that has most of it, as text.
template <typename Value>
std::string most_bytes(const std::vector<RankReport>& ranks, Value value) {
  std::int64_t most = 0;
  for (const RankReport& rank : ranks) most = std::max(most, value(rank));
  return format_bytes(most);
}

template <typename Value>
Json per_rank(const std::vector<RankReport>& ranks, Value value) {
  Json json = Json::array();
  for (const RankReport& rank : ranks) json.push_back(value(rank));
  return json;
}

}  // namespace

double median_step_seconds(const std::vector<double>& seconds) {
  const auto kept = counted(seconds);
  if (kept.empty()) return 0;
  std::vector<double> sorted(kept.begin(), kept.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double least_step_seconds(const std::vector<double>& seconds) {
  const auto kept = counted(seconds);
  return kept.empty() ? 0 : *std::min_element(kept.begin(), kept.end());
}

std::string float_bits(float value) {
  return fmt::format("{:08x}", std::bit_cast<std::uint32_t>(value));
}

std::string to_json(const RunReport& r) {
  const double median = median_step_seconds(r.step_seconds);
  double startup = 0;
  for (const RankReport& rank : r.ranks) startup = std::max(startup, rank.startup_s);
  Json json{{"system", "zero.cpp"}, {"version", ZERO_VERSION}, {"model", r.model}, {"num_parameters", r.num_parameters},
            {"world", r.world},     {"stage", r.stage},        {"dtype", r.dtype}, {"steps", r.steps},
            {"losses", r.losses}};
  for (const float loss : r.losses) json["loss_bits"].push_back(float_bits(loss));
  json["grad_norms"] = r.grad_norms;
  json["val_loss"] = r.has_validation ? Json(r.val_loss) : Json();
  json["step_seconds"] = r.step_seconds;
  json["step_s_median"] = median;
  json["step_s_min"] = least_step_seconds(r.step_seconds);
  json["tokens_per_second"] = median > 0 ? r.tokens_per_step / median : 0;
  json["startup_s"] = startup;
  json["parameters_sha256"] = r.parameters_sha256;
  json["peak_rss"] = per_rank(r.ranks, [](const RankReport& rank) { return rank.peak_rss; });
  json["steady_rss"] = per_rank(r.ranks, [](const RankReport& rank) { return rank.steady_rss; });
  json["steady_pss"] = per_rank(r.ranks, [](const RankReport& rank) { return rank.steady_pss; });
  json["memory_bytes"] =
      per_rank(r.ranks, [](const RankReport& rank) { return memory_json(rank.memory, rank.memory.total()); });
  json["peak_memory_bytes"] =
      per_rank(r.ranks, [](const RankReport& rank) { return memory_json(rank.peak_memory, rank.peak_memory_total); });
  json["sent_bytes_per_step"] = per_rank(r.ranks, [](const RankReport& rank) { return rank.sent_bytes_per_step; });
  json["received_bytes_per_step"] =
      per_rank(r.ranks, [](const RankReport& rank) { return rank.received_bytes_per_step; });
  json["planned_sent_bytes"] = r.planned_sent_bytes;
  json["padding_bytes"] = r.padding_bytes;
  json["formula"] = {{"state_bytes", r.state_formula_bytes}, {"sent_bytes", r.sent_formula_bytes}};
  json["skipped_steps"] = r.skipped_steps;
  json["departed_steps"] = r.departed_steps;
  json["transport"] = r.transport;
  json["ranks_source"] = r.ranks_source;
  json["threads"] = r.threads;
  json["utilization"] = utilization(r);
  return json.dump(1) + "\n";
}

std::string summary(const RunReport& r) {
  const double median = median_step_seconds(r.step_seconds);
  std::string text = fmt::format("  loss {:.4f}", r.losses.empty() ? 0.0F : r.losses.back());
  if (r.has_validation) text += fmt::format("  val_loss {:.4f}", r.val_loss);
  text += fmt::format("  {:.1f} ms a step  {} tokens/s  {:.0f}% of the probed peak\n", median * 1e3,
                      format_count(std::llround(median > 0 ? r.tokens_per_step / median : 0)), utilization(r) * 100);
  text += fmt::format("  a rank: state {} (formula {}), peak {}, process {}; sends {} a step (formula {})\n",
                      most_bytes(r.ranks, [](const RankReport& rank) { return rank.memory.state(); }),
                      format_bytes(std::llround(r.state_formula_bytes)),
                      most_bytes(r.ranks, [](const RankReport& rank) { return rank.peak_memory_total; }),
                      most_bytes(r.ranks, [](const RankReport& rank) { return rank.peak_rss; }),
                      most_bytes(r.ranks, [](const RankReport& rank) { return rank.sent_bytes_per_step; }),
                      format_bytes(std::llround(r.sent_formula_bytes)));
  if (r.skipped_steps > 0) text += fmt::format("  {} steps were skipped\n", r.skipped_steps);
  return text;
}

}  // namespace zero
