// verbs(), run_command(): the table of the command's verbs, and the command itself.
//
//   const std::vector<std::string> arguments{"train", "config.toml", "-n", "2"};
//   return run_command(arguments);
//
// Local.
#pragma once

#include <span>

#include "app/cli/command/verb.h"

namespace zero::cli {

std::span<const Verb> verbs();

// Runs the command. `arguments` begins with the verb. Only this function turns a verb's exception into a message and an
// exit status:
//
//   0  done
//   2  ConfigError, or a bad command line
//   3  CommError, a failed rank, or a bug of zero.cpp
//   4  IoError or DeviceError
//   128 + signal
int run_command(Arguments arguments);

// The verbs of this folder.
int run_train(Arguments arguments);
int run_launch(Arguments arguments);
int run_plan(Arguments arguments);
int run_generate(Arguments arguments);
int run_export(Arguments arguments);
int run_tokenize(Arguments arguments);
int run_sweep(Arguments arguments);
int run_convert(Arguments arguments);
int run_completion(Arguments arguments);
int run_man(Arguments arguments);
// `zero report RUN ... -o report.html` and `zero compare RUN ...` read run folders, and change nothing in them. An
// unfinished run is shown as far as it has come. They throw ConfigError for a folder that holds no run.
int run_report(Arguments arguments);
int run_compare(Arguments arguments);

}  // namespace zero::cli
