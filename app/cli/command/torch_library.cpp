#include "app/cli/command/torch_library.h"

#include <cstdlib>
#include <fstream>

#include <dlfcn.h>
#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero::cli {
namespace {

constexpr const char* kWaitPolicy = "OMP_WAIT_POLICY";
constexpr const char* kLibrary = "libzero_app.so";  // found through the command's own run path

bool is_open = false;

// Returns the path at which the loader found libtorch_cpu.so. Only the process's memory map has this path.
std::string path_of_libtorch() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with("/libtorch_cpu.so")) return line.substr(line.find('/'));
  }
  return "";
}

// Makes libgomp's threads sleep while they wait for the other threads of a loop. By default they spin. If another
// program uses their cores, spinning threads make steps take many times as long. If no other program does, sleeping
// costs next to nothing. libgomp reads the variable when it is loaded, together with libtorch.
void wait_for_threads_asleep() {
  ::setenv(kWaitPolicy, "passive", /*overwrite=*/0);
}

}  // namespace

const TorchVerbs& open_torch_verbs() {
  wait_for_threads_asleep();
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const std::string why = dlerror();
    const bool other_torch = why.find("undefined symbol") != why.npos;
    throw ConfigError(
        kLibrary, "", why,
        other_torch ? "the loader finds another libtorch than the libtorch of the build. Put the build's libtorch "
                      "first in LD_LIBRARY_PATH, or build for this libtorch (ZERO_TORCH=.../torch ./quickstart.sh)"
                    : "this verb needs libtorch: build with it (./quickstart.sh), or see `zero doctor`");
  }
  is_open = true;
  auto* entry = reinterpret_cast<decltype(&zero_torch_verbs)>(dlsym(library, "zero_torch_verbs"));
  if (entry == nullptr)
    throw ConfigError(kLibrary, "", "is not of zero.cpp's command", "build command and library together");
  const TorchVerbs& verbs = *entry();
  require_same_build(file_of(reinterpret_cast<void*>(entry)), verbs.abi);
  require_same_torch(verbs.torch_version, verbs.loaded_torch());
  return verbs;
}

void require_same_torch(std::string_view built_for, std::string_view loaded) {
  const auto number = [](std::string_view version) { return version.substr(0, version.find('+')); };
  if (loaded.empty() || number(built_for) == number(loaded)) return;
  throw ConfigError(
      "libtorch", loaded, fmt::format("zero.cpp was built for libtorch {}", built_for),
      fmt::format("put that libtorch first in LD_LIBRARY_PATH (pip install torch=={}), or build for this libtorch",
                  number(built_for)));
}

bool torch_is_open() {
  return is_open;
}

TorchFound probe_torch() {
  try {
    const TorchVerbs& verbs = open_torch_verbs();
    return {.loaded = true, .version = verbs.torch_version, .path = path_of_libtorch(), .problem = ""};
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    return {.loaded = false, .version = "", .path = "", .problem = what.substr(0, what.find('\n'))};
  }
}

std::string why_torch_uses_no_gpu() {
  try {
    return open_torch_verbs().why_no_cuda();
  } catch (const ConfigError&) {
    return "there is no libtorch";
  }
}

}  // namespace zero::cli
