// The command line of `zero launch`: torchrun's flags, verbatim, and the same from PET_* variables.
//
//   zero launch --nproc-per-node 2 -- ./train config.toml
//   torchrun's  --standalone --nnodes=1 --nproc_per_node=2 train.py --lr 1e-3     works with "zero launch" in front
//
// A script that ends in .py is given to python3 (PYTHON_EXEC overrides), as torchrun does.
#pragma once

#include <optional>

#include "zero/command/verb.h"
#include "zero/launch/launch_options.h"

namespace zero::cli {

// Nothing when help was printed. Throws ConfigError, also for a feature of torchrun that is not ours (elastic worlds).
std::optional<LaunchOptions> parse_launch(Arguments arguments);

}  // namespace zero::cli
