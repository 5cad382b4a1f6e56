// parse_launch(): parses the command line of `zero launch`: torchrun's flags, also as PET_* variables.
//
// Flags for files of output and for the local address are refused.
//
//   zero launch --nproc-per-node 2 -- ./train config.toml
//   torchrun's  --standalone --nnodes=1 --nproc_per_node=2 train.py --lr 1e-3     works after "zero launch"
//
// A script that ends in .py is run by python3 (PYTHON_EXEC overrides it), as torchrun does. Local.
#pragma once

#include <optional>

#include "app/cli/command/verb.h"
#include "app/launch/ranks/launch_options.h"

namespace zero::cli {

// Returns nullopt if it printed the help. Throws ConfigError, also for torchrun's elastic worlds, which zero.cpp does
// not support.
std::optional<LaunchOptions> parse_launch(Arguments arguments);

}  // namespace zero::cli
