#include "zero/base/files/plugin_file.h"

#include <filesystem>
#include <vector>

#include <dlfcn.h>

// The folder in which the build puts plug-ins; an installed zero_core finds them beside itself. Empty in a wheel.
#ifndef ZERO_PLUGIN_FOLDER
#define ZERO_PLUGIN_FOLDER ""
#endif

namespace zero {

std::string plugin_file(std::string_view name) {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&plugin_file), &self) != 0 && self.dli_fname != nullptr) {
    const fs::path folder = fs::path(self.dli_fname).parent_path();
    folders = {folder, folder / ".." / "lib"};
  }
  if (std::string_view(ZERO_PLUGIN_FOLDER) != "") folders.emplace_back(ZERO_PLUGIN_FOLDER);
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    if (fs::exists(folder / name, ignored)) return fs::weakly_canonical(folder / name, ignored).string();
  }
  return "";
}

}  // namespace zero
