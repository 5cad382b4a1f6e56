// open_torch_verbs(): opens libzero.so when a verb asks for it (torch_entry.h).
#pragma once

#include <string>

#include "zero/command/torch_entry.h"

namespace zero::cli {

// Throws ConfigError when the library, or libtorch behind it, cannot be loaded.
const TorchVerbs& open_torch_verbs();
// Whether this process has opened it.
bool torch_is_open();

// The same for doctor: the libtorch version, or why there is none, without an exception.
struct TorchFound {
  bool loaded = false;
  std::string version;
  std::string path;  // of libtorch_cpu.so
  std::string problem;
};
TorchFound probe_torch();

}  // namespace zero::cli
