// ConfigArguments: the arguments of verbs that take a configuration: [CONFIG.toml] [--section.key VALUE ...].
//
//   CLI::App app(...);   app.add_flag(...);
//   ConfigArguments config(app);
//   if (!config.parse(app, arguments)) return 0;
//   LoadedConfig loaded = config.load(/*check_files=*/true);
//
// Local. parse() and load() throw ConfigError for a bad flag, key, value or file.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/command/flags.h"
#include "app/config/options/config.h"
#include "app/config/options/value.h"

namespace zero::cli {

class ConfigArguments {
 public:
  // Adds the positional CONFIG.toml and --keys. The help's footer lists the keys.
  explicit ConfigArguments(CLI::App& app);
  ConfigArguments(const ConfigArguments&) = delete;
  ConfigArguments& operator=(const ConfigArguments&) = delete;

  // Returns false if it printed the help or the reference of keys instead.
  bool parse(CLI::App& app, Arguments arguments);
  // Loads the configuration. `more`: keys that override all others, as if given last.
  LoadedConfig load(bool check_files, std::span<const std::pair<std::string, std::string>> more = {}) const;
  // Returns arguments that give another `zero` process the same configuration.
  std::vector<std::string> arguments() const;

 private:
  std::string file_;
  std::string section_;
  CLI::Option* keys_ = nullptr;
  std::vector<Setting> overrides_;
};

}  // namespace zero::cli
