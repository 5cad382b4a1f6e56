#include "app/cli/command/build.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero::cli {

std::string file_of(const void* address) {
  Dl_info found{};
  return dladdr(address, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : "";
}

void require_same_build(std::string_view library, std::string_view built) {
  if (built == build_name()) return;
  throw ConfigError(std::string(library), std::string(built),
                    fmt::format("is of another build than this command ({})", build_name()),
                    "build both again (cmake --build --preset release), or install command and libraries together");
}

void require_same_core() {
  // The symbol of the loaded library, of any version. Older versions do not have the function.
  void* const found = dlsym(RTLD_DEFAULT, "zero_core_build_name");
  if (found == nullptr) return require_same_build("libzero_core.so", "an older version");
  require_same_build(file_of(found), reinterpret_cast<const char* (*)()>(found)());
}

}  // namespace zero::cli
