// slurm_tasks_on_node(), slurm_first_host(): read the two lists that Slurm packs into environment variables.
//
//   slurm_tasks_on_node("2(x3),1", 3) == 1                    // SLURM_STEP_TASKS_PER_NODE: 2, 2, 2, 1
//   slurm_first_host("gpu[007-009,12],login") == "gpu007"     // SLURM_STEP_NODELIST
//
// Local. Both throw ConfigError under `key` for any other text.
#pragma once

#include <string>
#include <string_view>

namespace zero {

int slurm_tasks_on_node(std::string_view list, int node, std::string_view key = "SLURM_STEP_TASKS_PER_NODE");
std::string slurm_first_host(std::string_view list, std::string_view key = "SLURM_STEP_NODELIST");

}  // namespace zero
