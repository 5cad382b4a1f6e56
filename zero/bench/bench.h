// The parts of `zero bench`: each measures itself against a limit probed in the same run, in turns with it, so that a
// busy machine slows both. The contract of a part is that of a verb (verb.h).
#pragma once

#include "zero/command/verb.h"

namespace zero::cli {

int run_bench(Arguments arguments);

int run_bench_optimizer(Arguments arguments);
int run_bench_checkpoint(Arguments arguments);
int run_bench_comm(Arguments arguments);
int run_bench_muon(Arguments arguments);
int run_bench_disk(Arguments arguments);
int run_bench_offload(Arguments arguments);
int run_bench_step(Arguments arguments);

// Throws ConfigError unless `bytes` of memory are available now: a benchmark that swaps measures the swap.
void require_memory(std::int64_t bytes, std::string_view remedy);

}  // namespace zero::cli
