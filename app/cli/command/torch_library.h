// open_torch_verbs(): opens libzero_app.so when a verb needs it (torch_entry.h).
//
//   return open_torch_verbs().generate({.run = "runs/x"});
//
// Local. Throws ConfigError.
#pragma once

#include <string>
#include <string_view>

#include "app/cli/command/torch_entry.h"

namespace zero::cli {

// Throws ConfigError if libzero_app.so or libtorch cannot be loaded.
const TorchVerbs& open_torch_verbs();
// Returns whether this process has opened libzero_app.so.
bool torch_is_open();

// The libtorch version, or the reason why libtorch cannot be loaded. For doctor.
struct TorchFound {
  bool loaded = false;
  std::string version;
  std::string path;  // path of libtorch_cpu.so
  std::string problem;
};
TorchFound probe_torch();
// Returns why libtorch can use no GPU, or "". Opens libtorch's code for GPUs, which takes a second, so call it only if
// there is a GPU.
std::string why_torch_uses_no_gpu();

// Throws ConfigError if the loaded libtorch is not the version that zero.cpp was built for.
void require_same_torch(std::string_view built_for, std::string_view loaded);

}  // namespace zero::cli
