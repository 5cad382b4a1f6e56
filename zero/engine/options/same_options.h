// require_same_options(): compares the options of all ranks before anything is allocated.
//
//   attach() = rank 1: differs from rank 0's: optimizer.lr = 0.002, not 0.001
//
// The parameters must be equal, and so must all options that change the computation or the messages. Budgets, tiers,
// threads and devices are each rank's own. Ranks send only a hash, unless they differ.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/options/options.h"

namespace zero {

// Collective. Throws ConfigError on every rank; it names the first rank that differs from rank 0, and the difference.
void require_same_options(Communicator& comm, const AttachOptions& options, const std::vector<ParamSpec>& specs);

// Collective. The same for any text of lines "key = value". `call`: the function that errors name.
void require_same_lines(Communicator& comm, std::string_view call, const std::string& lines);

// Local. Returns a line "key = value" for each compared option.
std::string text_of_options(const AttachOptions& options, const std::vector<ParamSpec>& specs);

}  // namespace zero
