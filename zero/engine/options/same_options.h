// require_same_options(): the ranks of an engine compare what each of them was given, before anything is allocated.
//
// What must be equal: the parameters, and all options that change what is computed or sent. Budgets, tiers, threads and
// devices are each rank's own. Only a hash travels, unless the ranks differ.
//
//   attach() = rank 1: differs from rank 0's: optimizer.lr = 0.002, not 0.001
#pragma once

#include <string>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/options/options.h"

namespace zero {

// Collective. Throws ConfigError, on every rank alike, that names the first rank that differs from rank 0, and what differs.
void require_same_options(Communicator& comm, const EngineOptions& options, const std::vector<ParamSpec>& specs);

// Local. A line "key = value" for each of them.
std::string text_of_options(const EngineOptions& options, const std::vector<ParamSpec>& specs);

}  // namespace zero
