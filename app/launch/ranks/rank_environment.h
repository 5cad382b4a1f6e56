// rank_variables(): the environment of one rank: torchrun's variables, so programs written for torchrun run unchanged.
//
//   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME
//   MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS
//   TORCHELASTIC_USE_AGENT_STORE=False (rank 0 of a program that asks for env:// makes the store itself)
//   OMP_NUM_THREADS     cores / ranks, unless set
//   OMP_WAIT_POLICY     passive, unless set
//   ZERO_CORES_BOUND    1: the rank is bound to cores of its own; 0: all ranks share the cores
//   ZERO_RUN_ID         the same for all ranks; on one machine a new one after each restart
//   ZERO_LAUNCH_ID      random; all attempts of this launcher have the same one
//   ZERO_GENERATION     0, and one more after each restart
//   ZERO_REPLACEMENT    how often only this rank was started again in this generation; unset: never
//   ZERO_MAX_REPLACEMENTS  most such starts of all ranks in this generation; unset: none
//   ZERO_ASKED_WORLD    if a rank was left out: the number of ranks before; `zero train` keeps their global batch
//   ZERO_TOKEN          on one machine, unless the user has a token: random, a new one at each start
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "zero/comm/rendezvous/detect_ranks.h"

#include "app/launch/ranks/launch_options.h"

namespace zero {

using Variables = std::vector<std::pair<std::string, std::string>>;

// The values that all ranks of one start share.
struct RunIdentity {
  std::string run_id;  // ZERO_RUN_ID
  int master_port = 0;
  int generation = 0;   // how often all ranks were started before
  std::string token{};  // ZERO_TOKEN; empty: the user's token, or none. Never printed
  int most_replacements = 0;
  std::string launch_id{};  // ZERO_LAUNCH_ID: the same at each start by this launcher
};

Variables rank_variables(const LaunchOptions& options, const RunIdentity& identity, int local_rank, int num_cores,
                         int replacement = 0);

// Returns `inherited` ("KEY=VALUE" each), overridden by `variables`. Keeps the user's OMP_NUM_THREADS and
// OMP_WAIT_POLICY.
std::vector<std::string> merge_environment(std::span<const std::string> inherited, const Variables& variables);

// Returns 16 random hexadecimal digits. Throws IoError.
std::string random_id();

// Returns the secret of the ranks of one start (zero/comm/rendezvous/job_token.h): 64 random hexadecimal digits.
// Returns "" if the user has set ZERO_TOKEN or ZERO_TOKEN_FILE, and for several machines, because each would draw
// another one.
std::string random_token(const LaunchOptions& options, const GetEnvironment& environment);

// Returns a TCP port of this machine at which no program listens now. Throws IoError.
int free_port();

}  // namespace zero
