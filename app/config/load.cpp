#include "app/config/load.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "app/config/model_of_init.h"
#include "app/config/options/option.h"
#include "app/config/options/suggest.h"
#include "app/config/rules/read_keys.h"
#include "app/config/rules/rules.h"
#include "app/config/toml_source.h"

namespace zero {
namespace {

bool is_section(std::string_view name) {
  return std::find(sections().begin(), sections().end(), name) != sections().end();
}

void apply(LoadedConfig& loaded, const Setting& setting) {
  const Option* option = find_option(setting.name);
  if (option == nullptr) {
    const bool empty_section = is_section(setting.name) && std::holds_alternative<Value::Table>(setting.value.data);
    if (empty_section) return;
    throw_unknown(setting.origin, setting.name, is_section(setting.name) ? "" : setting.text);
  }
  set_option(loaded.config, *option, setting);
  loaded.origins.insert_or_assign(setting.name, setting.origin);
}

// Refuses a variable whose name is similar to a key's variable: it is probably misspelt. Other variables belong to
// other programs.
void refuse_near_miss(std::string_view name, std::string_view value, std::span<const std::string> known) {
  constexpr std::string_view kRunId = "ZERO_RUN_ID";  // the launcher sets it; it is similar to ZERO_RUN_DIR
  if (name == kRunId) return;
  for (const auto& key : known) {
    if (edit_distance(name, key) > 2) continue;
    throw ConfigError(name, shown(value), "an environment variable that no key reads",
                      fmt::format("did you mean {}? Else unset it", key));
  }
}

void apply_environment(LoadedConfig& loaded, std::span<const std::string> environment) {
  std::vector<std::string> known;
  for (const auto& option : options()) known.push_back(environment_name(option));
  for (const auto& entry : environment) {
    const auto equals = entry.find('=');
    if (!entry.starts_with("ZERO_") || equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    const std::string text = entry.substr(equals + 1);
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) {
      refuse_near_miss(name, text, known);
      continue;
    }
    const auto& option = options()[static_cast<std::size_t>(found - known.begin())];
    apply(loaded, {std::string(option.name), parse_value(text), text, name, /*bare=*/true});
  }
}

}  // namespace

LoadedConfig load_config(const ConfigRequest& request) {
  LoadedConfig loaded;
  if (request.file) {
    for (const auto& setting : read_toml(*request.file)) apply(loaded, setting);
  }
  if (!request.text.empty()) {
    for (const auto& setting : parse_toml(request.text, request.text_name)) apply(loaded, setting);
  }
  apply_environment(loaded, request.environment);
  for (const auto& setting : request.overrides) apply(loaded, setting);
  const bool of_a_run = is_file_of_a_run(loaded);
  if (!request.recorded && !of_a_run) settle_model_of_init(loaded);
  settle_defaults(loaded);
  // Patterns are expanded here because the run's config.toml must contain the found files: ranks that find different
  // files must not start.
  auto& data = loaded.config.data;
  data.path = with_patterns_expanded(data.path, "data.path");
  if (auto* files = std::get_if<DataFiles>(&data.validation))
    *files = with_patterns_expanded(*files, "data.validation");
  check_rules(loaded);
  if (!request.recorded) check_keys_are_read(loaded, of_a_run);
  if (request.check_files) check_files(loaded);
  return loaded;
}

std::vector<std::string> environment_of_process() {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) out.emplace_back(*entry);
  return out;
}

}  // namespace zero
