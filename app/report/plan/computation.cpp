#include "app/report/plan/computation.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/files/input_file.h"
#include "zero/engine/options/pass_times.h"

namespace zero {
namespace {

constexpr const char* kKey = "--profile";

double seconds_of(const nlohmann::json& profile, const std::string& path, const char* name) {
  if (!profile.contains(name) || !profile[name].is_number())
    throw ConfigError(kKey, path, fmt::format("has no {}", name), "name the folder of a run that ended");
  return profile[name].get<double>();
}

double number_or_zero(const nlohmann::json& report, const std::string& name) {
  return report.is_object() && report.contains(name) && report[name].is_number() ? report[name].get<double>() : 0;
}

std::vector<double> shares_of(const nlohmann::json& profile, const std::string& path, const char* name,
                              std::size_t num_units) {
  std::vector<double> shares;
  if (!profile.contains(name) || !profile[name].is_array()) return shares;
  for (const auto& share : profile[name]) shares.push_back(share.is_number() ? share.get<double>() : -1);
  const bool fit = shares.empty() || shares.size() == num_units;
  if (!fit || !std::ranges::all_of(shares, [](double share) { return share >= 0 && share <= 1; })) {
    throw ConfigError(kKey, path,
                      fmt::format("{} is of {} units, and this model has {}", name, shares.size(), num_units),
                      "name the folder of a run of this model");
  }
  return shares;
}

// Counts the accesses of each unit, in all forward and in all backward passes.
std::array<std::vector<int>, 2> count_accesses(const Trace& trace, std::size_t num_units) {
  std::array<std::vector<int>, 2> accesses{std::vector<int>(num_units), std::vector<int>(num_units)};
  bool in_backward = false;
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::kBackward) in_backward = true;
    if (event.kind == EventKind::kEndBackward) in_backward = false;
    if (event.kind == EventKind::kAccess) ++accesses[in_backward ? 1 : 0][static_cast<std::size_t>(event.unit)];
  }
  return accesses;
}

}  // namespace

std::string_view name_of(ComputationFrom from) {
  constexpr std::array<std::string_view, 3> kNames{"nowhere", "run", "estimate"};
  return kNames[static_cast<std::size_t>(from)];
}

// Returns the rates of a report; zeros if it has none.
TierRates rates_of(const nlohmann::json& report) {
  const auto rates = report.is_object() && report.contains("rates") ? report["rates"] : nlohmann::json::object();
  TierRates found{.link_up = number_or_zero(rates, "link_up"),
                  .link_down = number_or_zero(rates, "link_down"),
                  .update_numel = number_or_zero(rates, "host_updates"),
                  .device_update_numel = number_or_zero(rates, "device_updates")};
  for (const Tier tier : kRequestTiers) {
    const std::string name(name_of(tier)), share = name + "_share";
    found.requests[tier] = {.read = number_or_zero(rates, name + "_read"),
                            .write = number_or_zero(rates, name + "_write"),
                            .share = rates.is_object() && rates.contains(share) ? number_or_zero(rates, share) : 1};
  }
  return found;
}

bool ran_on_gpu(const nlohmann::json& report) {
  return report.is_object() && report.contains("device") && report["device"].is_string() &&
         report["device"].get<std::string>().starts_with("cuda");
}

Computation computation_of_run(const std::string& run, std::size_t num_units, double tokens_per_rank) {
  if (std::error_code unknown; !std::filesystem::is_directory(run, unknown))
    throw ConfigError(kKey, run, "no such folder", "name the folder of a run that ended");
  const std::string path = run + "/report.json";
  require_input_file(kKey, path);
  const auto json = nlohmann::json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  const auto profile = json.is_object() && json.contains("profile") && json["profile"].is_object()
                           ? json["profile"]
                           : nlohmann::json::object();
  const bool rows = json.is_object() && json.contains("rows_per_step");
  const double world = number_or_zero(json, "world"),
               tokens = number_or_zero(json, rows ? "rows_per_step" : "tokens_per_step");
  const double scale = world > 0 && tokens > 0 ? tokens_per_rank * world / tokens : 1;
  return {.from = ComputationFrom::kRun,
          .step = {.forward_seconds = scale * seconds_of(profile, path, "forward_seconds"),
                   .backward_seconds = scale * seconds_of(profile, path, "backward_seconds"),
                   .used_at = shares_of(profile, path, "used_at", num_units),
                   .gradient_at = shares_of(profile, path, "gradient_at", num_units)},
          .update_seconds = seconds_of(profile, path, "update_seconds"),
          .states_on_device = !profile.contains("states_on_device") || profile["states_on_device"] != false,
          .on_gpu = ran_on_gpu(json),
          .rates = rates_of(json),
          .world = static_cast<int>(world),
          .scale = scale};
}

Computation estimated_computation(const ComputationNeed& need) {
  const double forward = need.flops / 3;
  const double backward = forward * (need.computes_again ? 3 : 2);
  const double rate = need.flops_per_second / need.crowd;
  return {.from = ComputationFrom::kEstimate,
          .step = {.forward_seconds = forward / rate, .backward_seconds = backward / rate},
          .flops = forward + backward,
          .flops_per_second = need.flops_per_second,
          .crowd = need.crowd};
}

void estimate_uses(const Trace& trace, const std::vector<Unit>& units, StepProfile& profile) {
  const auto accesses = count_accesses(trace, units.size());
  double computed = 0;
  PassClock clock(units.size(), [&computed] { return computed; });
  bool in_backward = false;
  for (const Event& event : trace.events) {
    clock.note(event);
    if (event.kind == EventKind::kBackward) in_backward = true;
    if (event.kind == EventKind::kEndBackward) in_backward = false;
    if (event.kind != EventKind::kAccess) continue;
    const auto unit = static_cast<std::size_t>(event.unit);
    computed += static_cast<double>(units[unit].numel) / accesses[in_backward ? 1 : 0][unit];
  }
  profile.used_at = clock.profile().used_at;
  profile.gradient_at = clock.profile().gradient_at;
}

}  // namespace zero
