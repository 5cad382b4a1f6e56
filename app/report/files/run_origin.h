// RunOrigin: date, machine and command of a run, for later readers of its report.
//
//   RunOrigin origin = origin_of_process(job.config_text, TORCH_VERSION);
//   origin.command      // "zero train c.toml --train.steps 50": the command of rank 0's process
//
// Values; Local. A string is empty if the system does not provide it.
#pragma once

#include <string>
#include <string_view>

namespace zero {

struct RunOrigin {
  std::string date;  // ISO 8601, UTC: when origin_of_process() was called
  std::string host;
  std::string command;   // words are quoted if necessary
  std::string libtorch;  // version
  std::string processor;
  int cores = 0;              // cores that this process may use
  std::string configuration;  // resolved, as TOML
};

// `libtorch`: its version.
RunOrigin origin_of_process(std::string_view configuration, std::string_view libtorch);

// Formats words for a shell, in single quotes if necessary.
std::string shell_words(std::string_view zero_terminated);

}  // namespace zero
