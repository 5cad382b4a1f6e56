// RunOrigin: when, where and by what a run came about, for whoever finds its report later.
//
//   RunOrigin origin = origin_of_process(job.config_text, TORCH_VERSION);
//   origin.command      // "zero train c.toml --train.steps 50": of rank 0, as this process was started
//
// Values; Local. What the system does not tell is empty.
#pragma once

#include <string>
#include <string_view>

namespace zero {

struct RunOrigin {
  std::string date;  // ISO 8601, UTC: when it was asked
  std::string host;
  std::string command;   // words that need it in quotes
  std::string libtorch;  // version
  std::string processor;
  int cores = 0;              // that this process may run on
  std::string configuration;  // resolved, as TOML
};

// `libtorch`: its version.
RunOrigin origin_of_process(std::string_view configuration, std::string_view libtorch);

// Words as a shell reads them: those that need it in single quotes.
std::string shell_words(std::string_view zero_terminated);

}  // namespace zero
