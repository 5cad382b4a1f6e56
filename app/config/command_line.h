// The command line of the verbs that take a configuration: overrides are sorted out first, flags of the verb stay.
//
//   split_command_line({"c.toml", "--train.steps", "5", "-n", "2"})
//     overrides: train.steps = 5        rest: c.toml -n 2
//
// An override is any argument that begins with "--" and has a dot before the first "=", so that a misspelt key is
// answered with the near one and not with "unknown flag".
#pragma once

#include <span>
#include <string>
#include <vector>

#include "app/config/value.h"

namespace zero {

struct CommandLine {
  std::vector<Setting> overrides;
  std::vector<std::string> rest;
};

// Local. Throws ConfigError for an override without a value.
CommandLine split_command_line(std::span<const std::string> arguments);

}  // namespace zero
