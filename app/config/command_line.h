// split_command_line(): separates overrides of the configuration from a verb's own arguments.
//
//   split_command_line({"c.toml", "--train.steps", "5", "-n", "2"})
//     overrides: train.steps = 5        rest: c.toml -n 2
//
// An override begins with "--" and has a dot before the first "=". So a misspelt key is reported with a similar key,
// and not as an unknown flag.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "app/config/options/value.h"

namespace zero {

struct CommandLine {
  std::vector<Setting> overrides;
  std::vector<std::string> rest;
};

// Local. Throws ConfigError for an override without a value.
CommandLine split_command_line(std::span<const std::string> arguments);

}  // namespace zero
