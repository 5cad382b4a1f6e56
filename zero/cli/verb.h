// The verbs of the command: one function a verb, one visible table (verb.cpp).
//
// A verb gets its arguments without its own name and returns the exit status. It throws ConfigError, CommError or
// IoError; run_command() alone turns those into a message and a status:
//
//   0 done · 2 ConfigError or a bad command line · 3 CommError, a failed rank, or our bug · 4 IoError · 128 + signal
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

std::span<const Verb> verbs();

int run_train(Arguments arguments);
int run_launch(Arguments arguments);
int run_plan(Arguments arguments);
int run_generate(Arguments arguments);
int run_export(Arguments arguments);
int run_inspect(Arguments arguments);
int run_bench(Arguments arguments);
int run_doctor(Arguments arguments);

// The whole command: `arguments` begins with the verb.
int run_command(Arguments arguments);

}  // namespace zero::cli
