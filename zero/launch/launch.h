// launch(): starts the ranks of a program on this machine, watches them, and ends all when one fails.
//
//   return launch({.program = {"./train", "config.toml"}, .ranks = 4});
//
// While they run: rank 0's standard output comes through as it is, the others' lines with a prefix; equal lines on
// standard error are printed once. After one failure the others may print what they saw, then get SIGTERM, then
// SIGKILL, and are gone within a second; one screen names the rank at fault. SIGINT, SIGTERM and SIGHUP are passed on
// once, a second one kills; SIGUSR1 is passed on. However the launcher itself ends, no rank and nothing a rank started
// is left.
//
// After a failure all ranks are started again, up to max_restarts times: another generation (ZERO_GENERATION). A rank
// without which the others go on (spared_from) is started again alone, within the same generation; it counts, too. With
// min_ranks, a rank that keeps failing at one point is given up, and the other ranks go on. Memory that the launcher
// holds for its ranks (zero/launcher_memory/launcher_memory.h) is there for the next generation.
//
// On several machines each has a launcher. Where ranks may be lost (spared_from) the launchers of a run talk with each
// other, and that of machine 0 decides what follows a failure (machine_messages.h); else each counts its own failures.
//
// Returns the exit status: 0; 3 when a rank failed (2 or 4 when it said so); 128 + signal when told to stop and a rank
// did not end with 0. Throws ConfigError when the program cannot be run. Local; call it once, from a process without
// threads.
#pragma once

#include "zero/launch/launch_options.h"

namespace zero {

int launch(const LaunchOptions& options);

}  // namespace zero
