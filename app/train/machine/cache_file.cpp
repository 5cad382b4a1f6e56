#include "app/train/machine/cache_file.h"

#include <fstream>
#include <utility>

#include "zero/base/error/log.h"
#include "zero/base/files/file.h"

namespace zero {

nlohmann::ordered_json read_cache(const std::filesystem::path& path) {
  std::ifstream file(path);
  auto entries = nlohmann::ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  return entries.is_object() ? entries : nlohmann::ordered_json::object();
}

void keep_in_cache(const std::filesystem::path& path, const std::string& key, nlohmann::ordered_json entry,
                   std::string_view what) {
  try {
    std::filesystem::create_directories(path.parent_path());
    auto entries = read_cache(path);
    entries[key] = std::move(entry);
    write_file(path, entries.dump(1) + "\n");
  } catch (const std::exception& error) {
    ZERO_LOG(warn, "{} cannot be kept for the next run: {}", what, error.what());
  }
}

}  // namespace zero
