// load_config(): reads and checks the user's configuration.
//
//   LoadedConfig loaded = load_config({.file = "config.toml", .environment = environment_of_process()});
//   fit_to_world(loaded, world);     // rules/fit_to_world.h
//
// The command line has priority over the environment, the environment over the file, the file over the default. Nothing
// is created, and data files are only checked to exist and not be empty. Data, model and memory check their own options
// later, when they are constructed.
//
// Local. Throws ConfigError.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/options/config.h"
#include "app/config/options/value.h"

namespace zero {

struct ConfigRequest {
  std::optional<std::filesystem::path> file;
  std::string text, text_name;           // TOML that is read in place of a file, and its name for messages
  std::vector<Setting> overrides;        // overrides of the command line (command_line.h)
  std::vector<std::string> environment;  // "ZERO_TRAIN_STEPS=100"; variables of other programs are ignored
  bool check_files = true;               // false if the data need not be on this machine (`zero plan`)
  bool recorded = false;                 // did a run write it? then keys that nothing reads are allowed
};

LoadedConfig load_config(const ConfigRequest& request);

std::vector<std::string> environment_of_process();

}  // namespace zero
