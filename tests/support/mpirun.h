// How the tests start ranks under mpirun: as root too, with more ranks than cores, and with an Open MPI that leaks by
// design (LeakSanitizer would fail every rank for it).
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

// The beginning of a shell's command line: "env A=1 B=2 mpirun".
inline std::string mpirun() {
  std::string command = "env";
  for (const auto& [name, value] : mpirun_variables()) command += " " + name + "=" + value;
  return command + " " + ZERO_MPIRUN;
}

inline std::string mpirun_ranks(int world) {
  return mpirun() + " -n " + std::to_string(world);
}

// Its flags for ranks of other hosts, which see no variable of here that is not named: those by which tests run.
inline std::string mpirun_hands_on() {
  std::string flags = "-x ASAN_OPTIONS";
  for (const char* const name : {"TSAN_OPTIONS", "ZERO_TEST_TIER", "ZERO_LOG_LEVEL"})
    if (std::getenv(name) != nullptr) flags += std::string(" -x ") + name;
  return flags;
}

}  // namespace zero
