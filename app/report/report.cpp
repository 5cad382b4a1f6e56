#include "app/report/report.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "zero/base/numbers/median.h"
#include "zero/base/text/bytes.h"
#include "zero/memory/io/transfer.h"

#include "app/report/predicted_json.h"
#include "app/report/same_configuration.h"
#include "app/report/screen/loss_text.h"
#include "app/report/screen/wrapped.h"

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

constexpr std::string_view kUtilization =
    "flops_per_step of the model / step_s_median / peak_flops: what the ranks reached together in a matrix product, "
    "probed at the end";

// The configuration by section. A value that is not JSON (an inline table) is written as text.
Json configuration_json(std::string_view toml) {
  Json json = Json::object();
  for (const auto& [key, text] : keys_of_configuration(toml)) {
    const auto dot = key.find('.');
    Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    json[key.substr(0, dot)][key.substr(dot + 1)] = value.is_discarded() ? Json(text) : std::move(value);
  }
  return json;
}

// The sum over all ranks that compute.
double peak_flops(const RunReport& r) {
  // Workers compute, on cores as fast as those of a server.
  if (!r.served.mode.empty() && !r.ranks.empty()) return r.served.workers * r.ranks.front().peak_flops;
  double sum = 0;
  for (const RankReport& rank : r.ranks) sum += rank.peak_flops;
  return sum;
}

double utilization(const RunReport& r) {
  const double median = median_step_seconds(r.steps.seconds), peak = peak_flops(r);
  return median > 0 && peak > 0 ? r.work.flops / median / peak : 0;
}

// The largest value of all ranks, as text.
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

bool uses_lower_tiers(const RunReport& r) {
  return std::ranges::any_of(r.ranks, [](const RankReport& rank) {
    return std::ranges::any_of(kLowerTiers, [&rank](Tier tier) { return rank.memory[tier].total() > 0; });
  });
}

bool places_states(const RunReport& r) {
  return std::ranges::any_of(r.ranks, [](const RankReport& rank) {
    return std::ranges::any_of(kLowerTiers, [&rank](Tier tier) { return rank.memory[tier].state() > 0; });
  });
}

bool uses_link(const RunReport& r) {
  return std::ranges::any_of(r.ranks, [](const RankReport& rank) { return rank.transfers.link.busy_seconds > 0; });
}

// The fraction of transfer time that no rank waited for.
double hidden_fraction(double busy_seconds, double waited_seconds) {
  return busy_seconds > 0 ? hidden_seconds(busy_seconds, waited_seconds) / busy_seconds : 1;
}
double hidden(const LinkTraffic& link) {
  return hidden_fraction(link.busy_seconds, link.waited_seconds);
}

void add_seconds(Json& json, double busy_seconds, double waited_seconds) {
  json["busy_seconds"] = busy_seconds;
  json["hidden_seconds"] = hidden_seconds(busy_seconds, waited_seconds);
  json["exposed_seconds"] = waited_seconds;
}

// Transfers of states between tiers, in a step; over the link also those of activations.
Json transfers_json(const RankReport& rank, bool with_link) {
  const LinkTraffic& link = rank.transfers.link;
  Json json = Json::object();
  for (const Tier tier : kRequestTiers) {
    const DiskTraffic& there = rank.transfers.requests[tier];
    Json& part = json[std::string(name_of(tier))];
    part = {{"read_bytes", there.read_bytes}, {"written_bytes", there.written_bytes}};
    add_seconds(part, there.busy_seconds, there.waited_seconds);
  }
  if (!with_link) return json;
  json["link_up"] = {{"bytes", link.up_bytes}};
  add_seconds(json["link_up"], link.up_busy_seconds, link.up_waited_seconds);
  json["link_down"] = {{"bytes", link.down_bytes}};
  add_seconds(json["link_down"], link.down_busy_seconds(), link.down_waited_seconds());
  return json;
}

// Returns ", 340 ms, 96% of it hidden"; empty: the disk was not busy.
std::string hidden_text(const DiskTraffic& disk) {
  if (disk.busy_seconds <= 0) return "";
  return fmt::format(", {}, {:.0f}% of it hidden", format_seconds(disk.busy_seconds),
                     100 * hidden_fraction(disk.busy_seconds, disk.waited_seconds));
}

Json served_json(const ServedReport& served) {
  return {{"mode", served.mode},
          {"servers", served.servers},
          {"workers", served.workers},
          {"staleness", served.staleness},
          {"quorum", served.quorum},
          {"updates", served.run.updates},
          {"dropped", served.run.dropped},
          {"mean_age", served.run.mean_age},
          {"most_age", served.run.most_age},
          {"pushed_bytes", served.run.pushed_bytes},
          {"pulled_bytes", served.run.pulled_bytes},
          {"waited_seconds", served.run.waited_seconds},
          {"replaced", served.run.replaced},
          {"gradients_of_workers", served.run.of_workers}};
}

// Copies of the model, and what a step sends between them, which is a part of sent_bytes. If copies train apart, also
// what an outer step sends between them.
Json copies_json(const RunReport& r) {
  const OuterReport& outer = r.engine.outer;
  Json json{
      {"number", r.engine.copies.number},
      {"ranks_of_each", r.engine.world / r.engine.copies.number},
      {"sent_bytes_per_step",
       per_rank(r.ranks, [](const RankReport& rank) { return rank.sent_between_copies_per_step; })},
      {"sent_bytes_total", per_rank(r.ranks, [](const RankReport& rank) { return rank.sent_between_copies_total; })},
      {"planned_sent_bytes", r.engine.copies.planned_sent_bytes},
      {"formula", {{"sent_bytes", r.engine.copies.sent_formula_bytes}}}};
  if (outer.local_steps > 0)
    json["outer_step"] = {
        {"every_steps", outer.local_steps},
        {"fragments", outer.fragments},
        {"overlap", outer.overlap},
        {"sent_bytes", per_rank(r.ranks, [](const RankReport& rank) { return rank.outer_sent_between_copies; })},
        {"planned_sent_bytes", outer.planned_sent_between_copies},
        {"formula", {{"sent_bytes", outer.formula_bytes}}}};
  return json;
}

// Secondary groups: the parts of sent_bytes that gathers of parts send within them, and that leave them.
Json secondary_json(const RunReport& r) {
  const SecondaryReport& secondary = r.engine.secondary;
  return {{"ranks_of_each", secondary.group},
          {"sent_bytes_per_step",
           per_rank(r.ranks, [](const RankReport& rank) { return rank.sent_within_secondary_per_step; })},
          {"planned_sent_bytes", secondary.planned_sent_bytes},
          {"sent_between_groups_per_step",
           per_rank(r.ranks, [](const RankReport& rank) { return rank.sent_between_groups_per_step; })},
          {"planned_sent_between_groups", secondary.planned_sent_between_groups}};
}

// The largest value of a formula, as text: with a pipeline ranks hold different parts of the model.
std::string most_formula(const RunReport& r, double of_engine, double RankReport::*value) {
  double most = of_engine;
  for (const RankReport& rank : r.ranks) most = std::max(most, rank.*value);
  return format_bytes(std::llround(most));
}

// Returns true for stage 3 with memory for units that stay gathered from forward to backward.
bool sends_less(const RunReport& r) {
  return r.engine.stage == 3 && std::ranges::all_of(r.ranks, [&](const RankReport& rank) {
           const double formula = rank.sent_formula_bytes > 0 ? rank.sent_formula_bytes : r.engine.sent_formula_bytes;
           return static_cast<double>(rank.sent_bytes_per_step) < 0.99 * formula;
         });
}

}  // namespace

double median_step_seconds(const std::vector<double>& seconds) {
  const auto kept = counted(seconds);
  return median_of(std::vector<double>(kept.begin(), kept.end()));
}

double least_step_seconds(const std::vector<double>& seconds) {
  const auto kept = counted(seconds);
  return kept.empty() ? 0 : *std::min_element(kept.begin(), kept.end());
}

std::string float_bits(float value) {
  return fmt::format("{:08x}", std::bit_cast<std::uint32_t>(value));
}

namespace {

// The results of training, and its speed.
Json results_json(const RunReport& r) {
  const double median = median_step_seconds(r.steps.seconds);
  double startup = 0;
  for (const RankReport& rank : r.ranks) startup = std::max(startup, rank.startup_s);
  Json json{{"system", "zero.cpp"},    {"version", ZERO_VERSION},
            {"model", r.model},        {"num_parameters", r.engine.num_parameters},
            {"world", r.engine.world}, {"stage", r.engine.stage},
            {"dtype", r.dtype},        {"device", r.machine.device},
            {"steps", r.steps.done},   {"losses", r.steps.losses}};
  for (const float loss : r.steps.losses) json["loss_bits"].push_back(float_bits(loss));
  json["grad_norms"] = r.steps.grad_norms;
  json["val_loss"] = r.validation.present ? Json(r.validation.loss) : Json();
  if (r.validation.accuracy) json["val_accuracy"] = *r.validation.accuracy;
  if (r.validation.perplexity) json["val_perplexity"] = *r.validation.perplexity;
  json["ended"] = r.steps.ended_early ? "no improvement" : "all steps";
  if (r.validation.best)
    json["best_evaluation"] = {{"measure", name_of(r.validation.best->measure)},
                               {"step", r.validation.best->step},
                               {"value", r.validation.best->step < 0 ? Json() : Json(r.validation.best->value)},
                               {"evaluations_since", r.validation.best->since}};
  json["step_seconds"] = r.steps.seconds;
  json["step_s_median"] = median;
  json["step_s_min"] = least_step_seconds(r.steps.seconds);
  const std::string_view counted = r.work.has_tokens ? "tokens" : "rows";
  json[fmt::format("{}_per_step", counted)] = r.work.tokens;
  json[fmt::format("{}_per_second", counted)] = median > 0 ? r.work.tokens / median : 0;
  json["startup_s"] = startup;
  json["parameters_sha256"] = r.parameters_sha256;
  return json;
}

// Adds the bytes of each rank on a tier.
void add_tier(Json& json, const RunReport& r, Tier tier) {
  const TierFacts& facts = facts_of(tier);
  json[std::string(facts.held_key)] = per_rank(
      r.ranks, [tier](const RankReport& rank) { return memory_json(rank.memory[tier], rank.memory[tier].total()); });
  if (facts.peak_key.empty()) return;
  json[std::string(facts.peak_key)] = per_rank(r.ranks, [tier](const RankReport& rank) {
    return memory_json(rank.peak_memory[tier], rank.peak_memory_total[tier]);
  });
}

void add_memory(Json& json, const RunReport& r) {
  json["peak_rss"] = per_rank(r.ranks, [](const RankReport& rank) { return rank.peak_rss; });
  json["steady_rss"] = per_rank(r.ranks, [](const RankReport& rank) { return rank.steady_rss; });
  json["steady_pss"] = per_rank(r.ranks, [](const RankReport& rank) { return rank.steady_pss; });
  add_tier(json, r, Tier::kDevice);
}

void add_lower_tiers(Json& json, const RunReport& r) {
  for (const Tier tier : kLowerTiers) add_tier(json, r, tier);
  for (const Tier tier : kRequestTiers) {
    const auto add = [&](std::string_view what, auto DiskTraffic::*number) {
      json[fmt::format("{}_{}_per_step", name_of(tier), what)] =
          per_rank(r.ranks, [&](const RankReport& rank) { return rank.transfers.requests[tier].*number; });
    };
    add("read_bytes", &DiskTraffic::read_bytes);
    add("written_bytes", &DiskTraffic::written_bytes);
    add("wait_seconds", &DiskTraffic::waited_seconds);
  }
  json["disk"] = r.machine.disk;
  json["transfers"] =
      per_rank(r.ranks, [with_link = uses_link(r)](const RankReport& rank) { return transfers_json(rank, with_link); });
  if (uses_link(r)) {
    json["link_up_bytes_per_step"] =
        per_rank(r.ranks, [](const RankReport& rank) { return rank.transfers.link.up_bytes; });
    json["link_down_bytes_per_step"] =
        per_rank(r.ranks, [](const RankReport& rank) { return rank.transfers.link.down_bytes; });
    json["link_hidden"] = per_rank(r.ranks, [](const RankReport& rank) { return hidden(rank.transfers.link); });
  }
}

void add_activations(Json& json, const RunReport& r) {
  json["activations_offloaded_on"] = r.machine.activations_on;
  json["activations_peak_bytes"] =
      per_rank(r.ranks, [](const RankReport& rank) { return rank.activations_peak_bytes; });
  json["activations_read_bytes_per_step"] =
      per_rank(r.ranks, [](const RankReport& rank) { return rank.activations_disk_per_step.read_bytes; });
  json["activations_written_bytes_per_step"] =
      per_rank(r.ranks, [](const RankReport& rank) { return rank.activations_disk_per_step.written_bytes; });
  json["activations_wait_seconds_per_step"] =
      per_rank(r.ranks, [](const RankReport& rank) { return rank.activations_disk_per_step.waited_seconds; });
}

// Rates of a rank, in bytes and elements a second. 0: no such resource, or not probed.
Json rates_json(const TierRates& rates) {
  Json json{{"link_up", rates.link_up}, {"link_down", rates.link_down}};
  for (const Tier tier : kRequestTiers) {
    const std::string name(name_of(tier));
    json[name + "_read"] = rates.requests[tier].read;
    json[name + "_write"] = rates.requests[tier].write;
    json[name + "_share"] = rates.requests[tier].share;
  }
  json["host_updates"] = rates.update_numel;
  json["device_updates"] = rates.device_update_numel;
  return json;
}

// Bytes between ranks, and the values of the formulas.
void add_exchange(Json& json, const RunReport& r) {
  json["sent_bytes_per_step"] = per_rank(r.ranks, [](const RankReport& rank) { return rank.sent_bytes_per_step; });
  json["received_bytes_per_step"] =
      per_rank(r.ranks, [](const RankReport& rank) { return rank.received_bytes_per_step; });
  json["sent_bytes_total"] = per_rank(r.ranks, [](const RankReport& rank) { return rank.sent_bytes_total; });
  json["planned_sent_bytes"] = r.engine.planned_sent_bytes;
  if (r.engine.copies.number > 1) json["copies"] = copies_json(r);
  if (r.engine.secondary.group > 0) json["secondary"] = secondary_json(r);
  if (!r.served.mode.empty()) json["served"] = served_json(r.served);
  json["padding_bytes"] = r.engine.padding_bytes;
  json["formula"] = {{"state_bytes", r.engine.state_formula_bytes}, {"sent_bytes", r.engine.sent_formula_bytes}};
  // With a pipeline or weighted shards ranks hold and send different parts; the values above are of rank 0.
  json["planned_sent_bytes_of_ranks"] =
      per_rank(r.ranks, [](const RankReport& rank) { return rank.planned_sent_bytes; });
  json["state_formula_bytes_of_ranks"] =
      per_rank(r.ranks, [](const RankReport& rank) { return rank.state_formula_bytes; });
  json["sent_formula_bytes_of_ranks"] =
      per_rank(r.ranks, [](const RankReport& rank) { return rank.sent_formula_bytes; });
}

}  // namespace

std::string to_json(const RunReport& r) {
  Json json = results_json(r);
  add_memory(json, r);
  if (uses_lower_tiers(r)) add_lower_tiers(json, r);
  if (!r.machine.activations_on.empty()) add_activations(json, r);
  add_exchange(json, r);
  json["profile"] = {{"forward_seconds", r.profile.forward},
                     {"backward_seconds", r.profile.backward},
                     {"update_seconds", r.profile.update},
                     {"exposed_seconds", r.profile.exposed},
                     {"used_at", r.engine.profile.used_at},
                     {"gradient_at", r.engine.profile.gradient_at},
                     {"states_on_device", r.machine.states_on_device}};
  if (r.machine.device != "cpu") json["updated_meanwhile_seconds"] = r.engine.updated_meanwhile_seconds;
  if (r.engine.rates.update_numel > 0) json["rates"] = rates_json(r.engine.rates);
  json["predicted"] = r.predicted ? predicted_json(*r.predicted) : Json();
  json["skipped_steps"] = r.engine.skipped_steps;
  if (r.engine.loss_scale) json["loss_scale"] = *r.engine.loss_scale;
  json["rewinds"] = r.steps.rewinds;
  json["spikes"] = r.steps.spikes;
  json["delayed_steps"] = r.engine.delayed_steps;
  json["departed_steps"] = r.engine.trace_mismatches;
  json["replans"] = r.engine.replans;
  json["moved_bytes"] = r.engine.moved_bytes;
  json["transport"] = r.engine.transport;
  json["ranks_source"] = r.machine.ranks_source;
  json["shares"] = r.shares;
  json["threads"] = r.machine.threads;
  json["flops_per_step"] = r.work.flops;
  json["peak_flops"] = peak_flops(r);
  json["utilization"] = utilization(r);
  json["utilization_is"] = kUtilization;
  json["date"] = r.origin.date;
  json["host"] = r.origin.host;
  json["command"] = r.origin.command;
  json["libtorch"] = r.origin.libtorch;
  json["processor"] = r.origin.processor;
  json["cores"] = r.origin.cores;
  json["configuration"] = configuration_json(r.origin.configuration);
  // The command may have bytes that are not UTF-8: they are replaced, so the report of a training is written.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

constexpr std::size_t kIndent = 4;

// Collects wrapped lines of the summary.
struct SummaryLines {
  std::string text;
  void operator()(std::string_view line) { text += wrapped(line, kIndent); }
};

// Lines about loss, speed and utilization.
std::string results_text(const RunReport& r) {
  const double median = median_step_seconds(r.steps.seconds);
  SummaryLines add;
  std::string& text = add.text;
  text = "  loss " + loss_text(r.steps.losses.empty() ? 0.0F : r.steps.losses.back());
  if (r.validation.present) text += "  val_loss " + loss_text(r.validation.loss);
  if (r.validation.accuracy) text += fmt::format("  val_accuracy {:.2f} %", 100 * *r.validation.accuracy);
  if (r.validation.perplexity) text += fmt::format("  val_perplexity {:.3f}", *r.validation.perplexity);
  text += fmt::format("  {} a step  {} {}/s\n", format_seconds(median),
                      format_count(std::llround(median > 0 ? r.work.tokens / median : 0)),
                      r.work.has_tokens ? "tokens" : "rows");
  if (r.steps.ended_early)
    add(fmt::format("  ended after {} of {} steps: {}", format_count(r.steps.done), format_count(r.steps.asked),
                    describe(*r.validation.best)));
  const double percent = utilization(r) * 100;
  add(fmt::format(
      "  utilization {}%: the model's arithmetic at the speed of a matrix product here, as a share of the step",
      percent < 10 ? fmt::format("{:.2g}", percent) : fmt::format("{:.0f}", percent)));
  return text;
}

// Lines about the bytes that a rank or a server holds and sends.
std::string ranks_text(const RunReport& r) {
  SummaryLines add;
  const bool has_servers = !r.served.mode.empty();
  const std::string sends =
      has_servers ? ""
                  : fmt::format("; sends {} a step (formula {}{})",
                                most_bytes(r.ranks, [](const RankReport& rank) { return rank.sent_bytes_per_step; }),
                                most_formula(r, r.engine.sent_formula_bytes, &RankReport::sent_formula_bytes),
                                sends_less(r) ? "; what device_memory kept was gathered once" : "");
  add(fmt::format("  a {}: state {} (formula {}), peak {}, process {}{}", has_servers ? "server" : "rank",
                  most_bytes(r.ranks,
                             [](const RankReport& rank) {
                               std::int64_t states = 0;
                               for (const Tier tier : kAllTiers) states += rank.memory[tier].state();
                               return states;
                             }),
                  most_formula(r, r.engine.state_formula_bytes, &RankReport::state_formula_bytes),
                  most_bytes(r.ranks, [](const RankReport& rank) { return rank.peak_memory_total.device; }),
                  most_bytes(r.ranks, [](const RankReport& rank) { return rank.peak_rss; }), sends));
  if (has_servers)
    add(fmt::format(
        "  {} made {} for {} (sync.mode {}); gradients were {:.2g} updates old in the mean, {} at most; the "
        "head took {} of them and sent {} of weights",
        format_count(r.served.servers, "server"), format_count(r.served.run.updates, "update"),
        format_count(r.served.workers, "worker"), r.served.mode, r.served.run.mean_age, r.served.run.most_age,
        format_bytes(r.served.run.pushed_bytes), format_bytes(r.served.run.pulled_bytes)));
  if (std::ranges::adjacent_find(r.shares, std::not_equal_to<>()) != r.shares.end())
    add(fmt::format("  samples of a micro-batch, by rank: {}", fmt::join(r.shares, " + ")));
  return add.text;
}

std::string copies_text(const RunReport& r) {
  SummaryLines add;
  const auto copies = [&r] {
    return fmt::format("  {} copies of the model on {} rank{} each", r.engine.copies.number,
                       r.engine.world / r.engine.copies.number, r.engine.world == r.engine.copies.number ? "" : "s");
  };
  if (r.engine.outer.local_steps > 0) {
    add(fmt::format("{} trained apart; every {} steps a rank sent {} between them (formula {})", copies(),
                    r.engine.outer.local_steps,
                    most_bytes(r.ranks, [](const RankReport& rank) { return rank.outer_sent_between_copies; }),
                    format_bytes(std::llround(r.engine.outer.formula_bytes))));
  } else if (r.engine.copies.number > 1) {
    add(fmt::format("{}; a rank sends {} between them", copies(),
                    most_bytes(r.ranks, [](const RankReport& rank) { return rank.sent_between_copies_per_step; })));
  }
  if (r.engine.secondary.group > 0)
    add(fmt::format(
        "  secondary groups of {} ranks: a rank sends {} within its group, in gathers of parts, and {} to other groups",
        r.engine.secondary.group,
        most_bytes(r.ranks, [](const RankReport& rank) { return rank.sent_within_secondary_per_step; }),
        most_bytes(r.ranks, [](const RankReport& rank) { return rank.sent_between_groups_per_step; })));
  return add.text;
}

// Returns "on the host 4 MiB, on disk 2 GiB": the states of the rank that holds most on each tier below the device.
std::string lower_states_text(const RunReport& r) {
  std::string text;
  for (const Tier tier : kLowerTiers)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", facts_of(tier).phrase,
                        most_bytes(r.ranks, [tier](const RankReport& rank) { return rank.memory[tier].state(); }));
  return text;
}

// Lines about bytes on lower tiers, and transfers to and from them.
std::string tiers_text(const RunReport& r) {
  SummaryLines add;
  if (places_states(r))
    add(fmt::format(
        "  of it {}; a step reads {} from disk and writes {}{}", lower_states_text(r),
        most_bytes(r.ranks, [](const RankReport& rank) { return rank.transfers.requests.disk.read_bytes; }),
        most_bytes(r.ranks, [](const RankReport& rank) { return rank.transfers.requests.disk.written_bytes; }),
        hidden_text(r.ranks.front().transfers.requests.disk)));
  if (!r.machine.activations_on.empty())
    add(fmt::format(
        "  activations on the {}: {} at most; a step reads {} from disk and writes {}, waiting {}",
        r.machine.activations_on,
        most_bytes(r.ranks, [](const RankReport& rank) { return rank.activations_peak_bytes; }),
        most_bytes(r.ranks, [](const RankReport& rank) { return rank.activations_disk_per_step.read_bytes; }),
        most_bytes(r.ranks, [](const RankReport& rank) { return rank.activations_disk_per_step.written_bytes; }),
        format_seconds(r.ranks.front().activations_disk_per_step.waited_seconds)));
  if (uses_link(r)) {
    const LinkTraffic& link = r.ranks.front().transfers.link;
    add(fmt::format("  over the link a step: {} up, {} down, {}, {:.0f}% of it hidden", format_bytes(link.up_bytes),
                    format_bytes(link.down_bytes), format_seconds(link.busy_seconds), 100 * hidden(link)));
  }
  if (uses_lower_tiers(r) && r.predicted && r.predicted->total() > 0)
    add(
        fmt::format("  predicted after three steps: {} a step at probed rates, bound by {}; measured since: {}, {} of "
                    "them exposed transfers",
                    format_seconds(r.predicted->total()), name_of(r.predicted->bound()),
                    format_seconds(r.profile.total), format_seconds(r.profile.exposed)));
  return add.text;
}

// Lines about unusual steps.
std::string events_text(const RunReport& r) {
  SummaryLines add;
  if (r.engine.delayed_steps > 0)
    add(fmt::format("  {} {} applied a step late", format_count(r.engine.delayed_steps, "gradient"),
                    r.engine.delayed_steps == 1 ? "was" : "were"));
  if (r.engine.skipped_steps > 0)
    add(fmt::format("  {} {} skipped", format_count(r.engine.skipped_steps, "step"),
                    r.engine.skipped_steps == 1 ? "was" : "were"));
  if (r.engine.loss_scale) add(fmt::format("  the loss scale ended at {:g}", *r.engine.loss_scale));
  if (r.steps.rewinds > 0) add(fmt::format("  went back to a checkpoint {}", format_count(r.steps.rewinds, "time")));
  return add.text;
}

}  // namespace

std::string summary(const RunReport& r) {
  return results_text(r) + ranks_text(r) + copies_text(r) + tiers_text(r) + events_text(r);
}

}  // namespace zero
