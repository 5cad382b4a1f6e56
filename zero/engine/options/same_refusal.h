// refuse_alike(): a configuration that one rank must refuse is refused by all, with that rank's words.
//
//   refuse_alike(comm, [&] { require_memory(...); });      // a rank may throw ConfigError, another may not
//
// For ranks that hold unequal shards: else the others would wait for the one that has left.
#pragma once

#include <functional>

#include "zero/comm/communicator.h"

namespace zero {

// Collective; the body is Local. A rank that threw throws the same again; the others throw a ConfigError under the key of the
// lowest rank that did.
void refuse_alike(Communicator& comm, const std::function<void()>& body);

}  // namespace zero
