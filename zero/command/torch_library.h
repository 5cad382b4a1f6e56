// open_torch_verbs(): opens libzero.so when a verb asks for it (torch_entry.h).
#pragma once

#include <string>
#include <string_view>

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
// "" or why libtorch can use no GPU. Opens its code for GPUs, which takes a second: where there is a GPU.
std::string why_torch_uses_no_gpu();

// Throws ConfigError where the libtorch that was loaded is not the one that zero.cpp was built for.
void require_same_torch(std::string_view built_for, std::string_view loaded);

}  // namespace zero::cli
