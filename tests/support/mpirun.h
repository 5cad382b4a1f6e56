// mpirun(): the start of ranks under mpirun in tests: as root, with more ranks than cores, and without LeakSanitizer,
// because Open MPI leaks by design.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#ifndef ZERO_MPIRUN  // a build without Open MPI
#define ZERO_MPIRUN ""
#endif

namespace zero {

inline const std::vector<std::pair<std::string, std::string>>& mpirun_variables() {
  static const std::vector<std::pair<std::string, std::string>> kVariables{{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                                                           {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                                                           {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                                                           {"OMPI_MCA_mpi_yield_when_idle", "1"},
                                                                           {"ASAN_OPTIONS", "detect_leaks=0"}};
  return kVariables;
}

// The beginning of a shell command: "env A=1 B=2 mpirun".
inline std::string mpirun() {
  std::string command = "env";
  for (const auto& [name, value] : mpirun_variables()) command += " " + name + "=" + value;
  return command + " " + ZERO_MPIRUN;
}

inline std::string mpirun_ranks(int world) {
  return mpirun() + " -n " + std::to_string(world);
}

// Flags that pass the variables of the tests to ranks on other hosts. These see no variable that is not named.
inline std::string mpirun_hands_on() {
  std::string flags = "-x ASAN_OPTIONS";
  for (const char* const name : {"TSAN_OPTIONS", "ZERO_TEST_TIER", "ZERO_LOG_LEVEL"})
    if (std::getenv(name) != nullptr) flags += std::string(" -x ") + name;
  return flags;
}

}  // namespace zero
