// torchrun_path(): ZERO_TORCHRUN, or torchrun in PATH; empty if there is none.
#pragma once

#include <cstdlib>
#include <sstream>
#include <string>

#include <unistd.h>

namespace zero {

inline std::string torchrun_path() {
  if (const char* given = std::getenv("ZERO_TORCHRUN"); given != nullptr) return given;
  std::istringstream folders(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = folder + "/torchrun";
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

}  // namespace zero
