// launch(): starts the ranks of a program on this machine, watches them, and ends all if one fails.
//
//   return launch({.program = {"./train", "config.toml"}, .ranks = 4});
//
// Invariant: however the launcher ends, no rank is left, nor any process that a rank started. Local. Throws ConfigError
// if the program cannot be run.
#pragma once

#include "app/launch/ranks/launch_options.h"

namespace zero {

// Runs the program, and returns the exit status. If a rank failed, that is 3, or the rank's own status if that is 2 or
// 4. If a signal stopped the launcher and a rank did not end with 0, it is 128 + signal. Otherwise it is 0. Call it
// once, from a process without threads.
//
// Output: prints rank 0's standard output unchanged, and lines of other ranks with a prefix. Prints equal lines on
// standard error once.
//
// After a failure: the other ranks may print their errors, then get SIGTERM, then SIGKILL, and are gone within a
// second. One screen names the rank at fault.
//
// Signals: passes SIGINT, SIGTERM and SIGHUP on once; a second signal kills the ranks. Passes every SIGUSR1 on.
//
// Restarts:
// - After a failure all ranks start again, up to max_restarts times. Each start is a new generation (ZERO_GENERATION).
// - If the others can continue without a rank, only that rank starts again, in the same generation. This also counts as
//   a restart. `spared_from` is the first of such ranks, and all ranks after it are such ranks.
// - With min_ranks, a rank that keeps failing at one point is given up, and the other ranks continue.
// - Memory that the launcher holds for its ranks (zero/comm/launcher/launcher_memory.h) is available to the next
//   generation.
//
// Several machines: each machine has a launcher. If ranks may be lost (spared_from), the launchers of a run exchange
// messages, and the launcher of machine 0 decides what follows a failure (machine_messages.h). Otherwise each launcher
// counts its own failures.
int launch(const LaunchOptions& options);

}  // namespace zero
