#include "app/cli/command/configured.h"

#include <fmt/format.h>

#include "app/config/command_line.h"
#include "app/config/load.h"
#include "app/config/options/option.h"
#include "app/config/options/option_help.h"

namespace zero::cli {

ConfigArguments::ConfigArguments(CLI::App& app) {
  app.add_option("CONFIG.toml", file_, "configuration file");
  keys_ = app.add_option("--keys", section_, "explain all keys, the keys of a section, or one key (zero.stage)")
              ->expected(0, 1)
              ->type_name("SECTION");
  app.footer("Every key below is also a flag, --section.key VALUE, and a variable, ZERO_SECTION_KEY:\n" +
             options_overview());
}

bool ConfigArguments::parse(CLI::App& app, Arguments arguments) {
  CommandLine line = split_command_line(arguments);
  std::vector<std::string> keys;
  for (const Option& option : options()) keys.push_back(fmt::format("--{}", option.name));
  if (!parse_flags(app, line.rest, keys)) return false;
  if (keys_->count() > 0) {
    fmt::print("{}", options_reference(section_));
    return false;
  }
  overrides_ = std::move(line.overrides);
  return true;
}

LoadedConfig ConfigArguments::load(bool check_files, std::span<const std::pair<std::string, std::string>> more) const {
  ConfigRequest request{
      .file = {}, .overrides = overrides_, .environment = environment_of_process(), .check_files = check_files};
  if (!file_.empty()) request.file = file_;
  for (const auto& [name, text] : more)
    request.overrides.push_back({name, parse_value(text), text, "command line", /*bare=*/true});
  return load_config(request);
}

std::vector<std::string> ConfigArguments::arguments() const {
  std::vector<std::string> out;
  if (!file_.empty()) out.push_back(file_);
  for (const auto& setting : overrides_) out.push_back(fmt::format("--{}={}", setting.name, setting.text));
  return out;
}

}  // namespace zero::cli
