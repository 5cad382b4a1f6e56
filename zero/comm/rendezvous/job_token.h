// The token of a job: a secret that its ranks share, and that no stranger on the network knows.
//
//   export ZERO_TOKEN=$(openssl rand -hex 32)          # on every machine; or ZERO_TOKEN_FILE, a file of mode 0600
//   const std::string token = rendezvous_token(ranks, std::getenv);
//
// Ranks of several machines that meet at a port of rank 0 prove to each other that they have the token. It is never
// sent or printed, and no command takes it as an argument. It is optional on one machine, because no bytes leave the
// machine. It is also optional under torchrun: there rank 0 draws a secret name and puts it into torchrun's own store.
// A token that is set is always checked. zero launch draws a token for the ranks of one machine.
//
// Local. Throws ConfigError under ZERO_TOKEN or ZERO_TOKEN_FILE if a file does not exist or others may use it. Also for
// a token of fewer than 16 characters, and for a missing token that is needed.
#pragma once

#include <string>

#include "zero/comm/rendezvous/detect_ranks.h"

namespace zero {

// Returns the token; empty if there is none and none is needed.
std::string rendezvous_token(const RankEnvironment& ranks, const GetEnvironment& environment);

}  // namespace zero
