// RunLaunch: the launch that started this rank, and whether an earlier attempt of it may have begun the run.
//
//   const RunLaunch launch = detect_launch(std::getenv, ::getppid());
//   // {.name = "torchrun none 5f3a... 4711 88213", .is_restart = true, .keeps_runs = false}
//
// Each launcher of `zero launch` draws a name that no other launcher has (ZERO_LAUNCH_ID). torchrun's run id may be
// "none", or that of an earlier job. So its name also has the process of torchrun's agent, the start of that process,
// and the boot of the machine. The agent stays during all attempts. Machines have different launchers or agents, and so
// different names: RunOpening gathers them. The agent is the first ancestor without TORCHELASTIC_RESTART_COUNT: a rank
// may be started by a script.
//
// Local, without side effects.
#pragma once

#include <string>

#include "zero/comm/rendezvous/detect_ranks.h"

namespace zero {

struct RunLaunch {
  std::string name;         // equal in all attempts on a machine; empty: not known
  bool is_restart = false;  // perhaps: then a run that began under `name` is continued
  bool keeps_runs = false;  // a restart whose first attempt is not known for certain: it deletes no other run
};

// `parent`: the parent process of this rank. `proc`: the folder of processes.
RunLaunch detect_launch(const GetEnvironment& environment, int parent, const std::string& proc = "/proc");

}  // namespace zero
