// require_same_options(): compares the options of all ranks before anything is allocated.
//
//   attach() = rank 1: differs from rank 0's: optimizer.lr = 0.002, not 0.001
//
// The parameters must be equal, and so must all options that change the computation or the messages. Budgets, tiers,
// threads and devices are each rank's own. Ranks send only a hash, unless they differ.
#pragma once

#include <functional>
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

// refuse_alike(): makes all ranks refuse a configuration that one rank refuses, with that rank's message.
//
//   refuse_alike(comm, [&] { require_memory(...); });      // some ranks may throw ConfigError
//
// Use it for checks that only some ranks may fail, because their shards are unequal. Otherwise the other ranks would
// wait for a rank that has left.
//
// Collective; the body is Local. A rank that threw rethrows its own error; the other ranks throw a ConfigError under
// the key of the lowest rank that threw.
void refuse_alike(Communicator& comm, const std::function<void()>& body);

}  // namespace zero
