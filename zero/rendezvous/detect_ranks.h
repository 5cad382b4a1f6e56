// RankEnvironment: the rank of this process and the number of ranks, as the launcher says them.
//
//   const RankEnvironment ranks = detect_ranks({}, [](const char* name) { return std::getenv(name); });
//   // zero launch, torchrun: rank 1 of 4, local rank 1 of 2, run "5f3a-29500"
//
// The first source of this list that is there counts: explicit flags, torchrun (and zero launch), Open MPI, PMI
// (MPICH, Intel MPI, MVAPICH), Slurm, PET_* (Kubeflow), one process. Numbers are read strictly: a variable that is
// there but makes no sense is a ConfigError that names it, never a reason to look further.
//
// RANK without LOCAL_RANK, and PET_*, describe a node (a pod), not a process: `per_node` is set, `rank` is the first of
// the `local_world` ranks that somebody has to start here.
//
// Local, no side effects: reads through `environment` alone.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace zero {

struct RankEnvironment {
  int rank = 0;
  int world = 1;
  int local_rank = 0;                  // among the ranks of this machine
  int local_world = 1;                 // ranks of this machine
  std::string source = "one process";  // who said so, for the line that is printed
  std::string master_addr = "127.0.0.1";
  int master_port = 29500;
  std::string
      run_id;  // the same for all ranks of a run, another for other runs of this machine; may be empty for one rank
  // The run's name in torchrun's own store, which then listens at master_addr:master_port (tcp_store.h).
  std::optional<std::string> agent_run;
  bool per_node = false;
  int generation = 0;         // how often the launcher had started all ranks before; those of another are refused
  int replacement = 0;        // how often the launcher had started this rank alone again in this generation
  int most_replacements = 0;  // how many such starts there may be in this generation, of all ranks together
};

struct RankFlags {
  std::optional<int> rank, world, local_rank, local_world;
  std::optional<std::string> master_addr;
  std::optional<int> master_port;
  std::optional<std::string> run_id;
};

// nullptr for a variable that is not set.
using GetEnvironment = std::function<const char*(const char* name)>;

RankEnvironment detect_ranks(const RankFlags& flags, const GetEnvironment& environment);

// "rank 1 of 4 (local 1 of 2), from torchrun": the line that is printed.
std::string describe(const RankEnvironment& ranks);

}  // namespace zero
