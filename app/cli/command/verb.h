// Verb: a verb of the command, such as `zero train` or `zero bench`.
//
//   constexpr Verb kInspect{"inspect", "prints the contents of a file", run_inspect};
//
// A verb gets its arguments without its own name, and returns the exit status. It throws ConfigError, CommError or
// IoError. Only run_command() (app/cli/verbs.h) turns these exceptions into a message and a status.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace zero::cli {

using Arguments = std::span<const std::string>;

struct Verb {
  std::string_view name;
  std::string_view help;  // one line
  int (*run)(Arguments);
};

}  // namespace zero::cli
