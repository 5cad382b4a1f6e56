// verbs(): the table of the command's verbs (verbs.cpp). run_command(): the command itself.
#pragma once

#include <span>

#include "zero/command/verb.h"

namespace zero::cli {

std::span<const Verb> verbs();

// The whole command: `arguments` begins with the verb. What a verb throws becomes a message and an exit status here,
// and nowhere else:
//
//   0 done · 2 ConfigError or a bad command line · 3 CommError, a failed rank, or our bug · 4 IoError · 128 + signal
int run_command(Arguments arguments);

// Of this folder.
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

}  // namespace zero::cli
