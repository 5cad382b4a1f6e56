// RankEnvironment: the rank of this process and the number of ranks, as the launcher gives them.
//
//   const RankEnvironment ranks = detect_ranks({}, [](const char* name) { return std::getenv(name); });
//   // zero launch, torchrun: rank 1 of 4, local rank 1 of 2, run "5f3a-29500"
//
// The first present source counts. The order is explicit flags, torchrun (and zero launch), Open MPI, PMI (MPICH, Intel
// MPI, MVAPICH), Slurm, PET_* (Kubeflow), one process. Numbers are read strictly: a variable with a senseless value is
// a ConfigError that names it, and no other source is tried. A size above 1 without its rank is also a ConfigError.
//
// RANK without LOCAL_RANK, and PET_*, describe a node (a pod), not a process. `per_node` is then set, and `rank` is the
// first of the `local_world` ranks that must be started here.
//
// Local, no side effects: reads only through `environment`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace zero {

struct RankEnvironment {
  int rank = 0;
  int world = 1;
  int local_rank = 0;                  // among the ranks of this machine
  int local_world = 1;                 // ranks of this machine
  std::string source = "one process";  // name of the source, for the line that is printed
  std::string master_addr = "127.0.0.1";
  int master_port = 29500;
  // The same on all ranks of a run, and different from other runs of this machine. May be empty for one rank.
  std::string run_id;
  // Name of the run in torchrun's own store, which is then served at master_addr:master_port (tcp_store.h).
  std::optional<std::string> agent_run;
  bool per_node = false;
  // Number of earlier starts of all ranks by the launcher; ranks of another generation are refused.
  int generation = 0;
  int replacement = 0;        // number of earlier starts of only this rank in this generation
  int most_replacements = 0;  // most such starts in this generation, over all ranks
};

struct RankFlags {
  std::optional<int> rank, world, local_rank, local_world;
  std::optional<std::string> master_addr;
  std::optional<int> master_port;
  std::optional<std::string> run_id;
};

// Returns the value of a variable; nullptr if it is not set.
using GetEnvironment = std::function<const char*(const char* name)>;

RankEnvironment detect_ranks(const RankFlags& flags, const GetEnvironment& environment);

// Returns the line that is printed: "rank 1 of 4 (local 1 of 2), from torchrun".
std::string describe(const RankEnvironment& ranks);

// slurm_tasks_on_node(), slurm_first_host(): read the two lists that Slurm packs into environment variables.
//
//   slurm_tasks_on_node("2(x3),1", 3) == 1                    // SLURM_STEP_TASKS_PER_NODE: 2, 2, 2, 1
//   slurm_first_host("gpu[007-009,12],login") == "gpu007"     // SLURM_STEP_NODELIST
//
// Local. Both throw ConfigError under `key` for any other text.
int slurm_tasks_on_node(std::string_view list, int node, std::string_view key = "SLURM_STEP_TASKS_PER_NODE");
std::string slurm_first_host(std::string_view list, std::string_view key = "SLURM_STEP_NODELIST");

}  // namespace zero
