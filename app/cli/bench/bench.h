// run_bench(): dispatches `zero bench PART`. Each part measures itself against a limit that it probes in the same run.
//
//   const std::vector<std::string> arguments{"disk", "--json"};
//   return run_bench(arguments);
//
// A part and its probe run in turns, so a busy machine slows both; `step` measures libtorch first, then zero.cpp. Each
// part is a verb (verb.h): it parses its arguments, and returns the exit status. Local. Throws as verbs do.
#pragma once

#include "app/cli/command/verb.h"

namespace zero::cli {

int run_bench(Arguments arguments);
// The parts in the order of the help.
std::span<const Verb> bench_parts();

int run_bench_optimizer(Arguments arguments);
int run_bench_checkpoint(Arguments arguments);
int run_bench_comm(Arguments arguments);
int run_bench_muon(Arguments arguments);
int run_bench_disk(Arguments arguments);
int run_bench_offload(Arguments arguments);
int run_bench_step(Arguments arguments);

// Throws ConfigError unless `bytes` of memory are available now: if a benchmark swaps, it measures the swap.
void require_memory(std::int64_t bytes, std::string_view remedy);

}  // namespace zero::cli
