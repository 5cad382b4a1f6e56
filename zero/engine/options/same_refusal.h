// refuse_alike(): makes all ranks refuse a configuration that one rank refuses, with that rank's message.
//
//   refuse_alike(comm, [&] { require_memory(...); });      // some ranks may throw ConfigError
//
// Use it for checks that only some ranks may fail, because their shards are unequal. Otherwise the other ranks would
// wait for a rank that has left.
#pragma once

#include <functional>

#include "zero/comm/communicator.h"

namespace zero {

// Collective; the body is Local. A rank that threw rethrows its own error; the other ranks throw a ConfigError under
// the key of the lowest rank that threw.
void refuse_alike(Communicator& comm, const std::function<void()>& body);

}  // namespace zero
