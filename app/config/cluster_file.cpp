#include "app/config/cluster_file.h"

#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"

#include "app/config/options/option.h"
#include "app/config/options/suggest.h"
#include "app/config/toml_source.h"

namespace zero {
namespace {

constexpr std::int64_t kMostRanks = 100'000;

[[noreturn]] void refuse(const Setting& setting, std::string_view reason, std::string_view remedy) {
  throw ConfigError(located(setting.origin, setting.name), shown(setting.text), reason, remedy);
}

int count(const Setting& setting) {
  const auto* number = std::get_if<std::int64_t>(&setting.value.data);
  if (number == nullptr || *number < 1 || *number > kMostRanks) refuse(setting, "not a count", "write 1 or more");
  return static_cast<int>(*number);
}

double number_of(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value.data)) return static_cast<double>(*whole);
  const auto* number = std::get_if<double>(&value.data);
  return number != nullptr ? *number : std::nan("");
}

double number(const Setting& setting, bool zero_too) {
  const double found = number_of(setting.value);
  if (!std::isfinite(found) || found < 0 || (found == 0 && !zero_too))
    refuse(setting, fmt::format("not a number of {} or more", zero_too ? "0" : "more than 0"),
           zero_too ? "write for example 20" : "write for example 1e12");
  return found;
}

std::int64_t bytes(const Setting& setting, std::string_view example) {
  const auto* text = std::get_if<std::string>(&setting.value.data);
  if (text == nullptr)
    refuse(setting, "not a number of bytes with a unit", fmt::format("write for example \"{}\"", example));
  const std::int64_t found = parse_bytes(*text, located(setting.origin, setting.name));
  if (found == 0) refuse(setting, "no bytes at all", fmt::format("write for example \"{}\"", example));
  return found;
}

std::vector<double> speeds(const Setting& setting) {
  const auto* items = std::get_if<Value::Array>(&setting.value.data);
  std::vector<double> found;
  if (items != nullptr)
    for (const Value& item : *items) found.push_back(number_of(item));
  const bool right =
      !found.empty() && std::ranges::all_of(found, [](double one) { return std::isfinite(one) && one > 0; });
  if (!right)
    refuse(setting, "not the speeds of a machine's ranks", "write for example [1, 1, 0.5]: 1 is the speed of flops");
  return found;
}

struct Key {
  std::string_view name;
  void (*set)(Cluster& cluster, const Setting& setting);
};
constexpr std::array kClusterKeys{
    Key{"hosts", [](Cluster& c, const Setting& s) { c.hosts = count(s); }},
    Key{"ranks", [](Cluster& c, const Setting& s) { c.ranks = count(s); }},
    Key{"network", [](Cluster& c, const Setting& s) { c.network = static_cast<double>(bytes(s, "1.25GB")); }},
    Key{"within", [](Cluster& c, const Setting& s) { c.within = static_cast<double>(bytes(s, "20GB")); }},
    Key{"latency_us", [](Cluster& c, const Setting& s) { c.latency = number(s, /*zero_too=*/true) * 1e-6; }},
    Key{"memory", [](Cluster& c, const Setting& s) { c.memory = bytes(s, "80GiB"); }},
    Key{"flops", [](Cluster& c, const Setting& s) { c.flops = number(s, /*zero_too=*/false); }},
    Key{"jitter", [](Cluster& c, const Setting& s) { c.jitter = number(s, /*zero_too=*/true); }},
    Key{"speeds", [](Cluster& c, const Setting& s) { c.speeds = speeds(s); }},
};

void set(Cluster& cluster, const Setting& setting) {
  std::vector<std::string_view> names;
  for (const Key& key : kClusterKeys) names.push_back(key.name);
  const bool in_section = setting.name.starts_with("cluster.");
  const std::string_view name = in_section ? std::string_view(setting.name).substr(8) : std::string_view(setting.name);
  if (in_section)
    for (const Key& key : kClusterKeys)
      if (key.name == name) return key.set(cluster, setting);
  refuse(setting, in_section ? "unknown key" : "not in [cluster]",
         did_you_mean(name, names) + fmt::format("keys of [cluster]: {}", fmt::join(names, " ")));
}

// Checks the values together. `file` is the name for messages.
void check(const Cluster& cluster, std::string_view file) {
  const std::string place(file);
  if (static_cast<std::int64_t>(cluster.hosts) * cluster.ranks > kMostRanks)
    throw ConfigError(place, fmt::format("{} machines of {} ranks", cluster.hosts, cluster.ranks),
                      "more than can be planned", fmt::format("use {} ranks in all at most", kMostRanks));
  if (cluster.hosts > 1 && cluster.network == 0)
    throw ConfigError(place, "no cluster.network", fmt::format("{} machines need a link between them", cluster.hosts),
                      "set its bytes a second, such as network = \"1.25GB\" for 10 Gbit/s");
  if (!cluster.speeds.empty() && std::ssize(cluster.speeds) != cluster.ranks)
    throw ConfigError(place, fmt::format("cluster.speeds of {}", format_count(std::ssize(cluster.speeds), "rank")),
                      fmt::format("a machine has {}", format_count(cluster.ranks, "rank")),
                      "give one speed for each rank, or leave them out");
}

Cluster cluster_of(const std::vector<Setting>& settings, std::string_view file) {
  if (settings.empty())
    throw ConfigError(std::string(file), "", "describes no cluster",
                      "write [cluster], hosts = 2, ranks = 8, network = \"1.25GB\"");
  Cluster cluster;
  for (const Setting& setting : settings) set(cluster, setting);
  check(cluster, file);
  return cluster;
}

}  // namespace

Cluster parse_cluster(std::string_view text, std::string_view file) {
  return cluster_of(parse_toml(text, file), file);
}

Cluster read_cluster(const std::filesystem::path& path) {
  return cluster_of(read_toml(path), path.string());
}

}  // namespace zero
