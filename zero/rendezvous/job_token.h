// The token of a job: a secret that its ranks share, and no stranger on the network knows.
//
//   export ZERO_TOKEN=$(openssl rand -hex 32)          # on every machine; or ZERO_TOKEN_FILE, a file of mode 0600
//   const std::string token = rendezvous_token(ranks, std::getenv);
//
// Ranks of several machines that meet at a port of rank 0 prove to each other that they have it; it is never sent, never
// printed and no command takes it as an argument. On one machine, which is not left, and under torchrun, in whose own
// store a name is drawn for each run, it may be missing; where it is given it counts. zero launch draws one for the
// ranks of one host.
//
// Local. Throws ConfigError under ZERO_TOKEN or ZERO_TOKEN_FILE: for a file that others may read, one that is not
// there, a token of fewer than 16 characters, and where one is needed and there is none.
#pragma once

#include <string>

#include "zero/rendezvous/detect_ranks.h"

namespace zero {

// Empty where there is none and none is needed.
std::string rendezvous_token(const RankEnvironment& ranks, const GetEnvironment& environment);

}  // namespace zero
