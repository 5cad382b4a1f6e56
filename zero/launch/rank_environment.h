// rank_variables(): the environment of one rank: torchrun's variables, so that any program written for torchrun runs
// under `zero launch`.
//
//   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME
//   MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS
//   TORCHELASTIC_USE_AGENT_STORE=False (rank 0 of a program that asks for env:// makes the store itself)
//   OMP_NUM_THREADS     cores / ranks, unless set
//   OMP_WAIT_POLICY     passive, unless set
//   ZERO_RUN_ID         the same for all ranks, a new one after each restart
//   ZERO_GENERATION     0, and one more after each restart
//   ZERO_REPLACEMENT    how often this rank alone was started again in this generation; unset: never
//   ZERO_MAX_REPLACEMENTS  most such starts in this generation, of all ranks; unset: none
//   ZERO_ASKED_WORLD    if a rank was left out: the number of ranks before; `zero train` keeps their global batch
//   ZERO_TOKEN          on one machine, unless the user has a token: random, a new one at each start
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "zero/launch/launch_options.h"
#include "zero/rendezvous/detect_ranks.h"

namespace zero {

using Variables = std::vector<std::pair<std::string, std::string>>;

// What all ranks of one start share.
struct RunIdentity {
  std::string run_id;  // ZERO_RUN_ID
  int master_port = 0;
  int generation = 0;   // of the ranks: how often all were started before
  std::string token{};  // ZERO_TOKEN; empty: the user's own, or none. Never to be printed
  int most_replacements = 0;
};

Variables rank_variables(const LaunchOptions& options, const RunIdentity& identity, int local_rank, int num_cores,
                         int replacement = 0);

// `inherited` ("KEY=VALUE" each) with `variables` put over it. OMP_NUM_THREADS and OMP_WAIT_POLICY that the user set
// stay.
std::vector<std::string> merge_environment(std::span<const std::string> inherited, const Variables& variables);

// 16 random hexadecimal digits. Throws IoError.
std::string random_id();

// What the ranks of one start have in common and nobody else has (zero/rendezvous/job_token.h): 64 random hexadecimal
// digits. Empty on several machines, which each draw for themselves, and where the user has set ZERO_TOKEN or
// ZERO_TOKEN_FILE.
std::string random_token(const LaunchOptions& options, const GetEnvironment& environment);

// A TCP port of this machine that nobody listens on at the moment. Throws IoError.
int free_port();

}  // namespace zero
