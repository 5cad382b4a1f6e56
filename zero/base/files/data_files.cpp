#include "zero/base/files/data_files.h"

#include <algorithm>

#include <fmt/format.h>
#include <glob.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"

namespace zero {
namespace {

std::vector<std::string> files_that_match(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::ranges::sort(paths);  // glob()'s own order depends on the language, and would differ between machines
  return paths;
}

void require_utf8(const std::string& path, std::string_view key) {
  using Json = nlohmann::json;
  try {
    static_cast<void>(Json(path).dump());
  } catch (const Json::type_error&) {
    throw ConfigError(key, Json(path).dump(-1, ' ', false, Json::error_handler_t::replace),
                      "a file whose name is not UTF-8 matches the pattern", "rename the file, or use another pattern");
  }
}

}  // namespace

std::string DataFiles::text() const {
  if (paths.empty()) return "";
  return paths.size() == 1 ? paths.front() : fmt::format("{} and {} more", paths.front(), paths.size() - 1);
}

bool is_open_pattern(const std::string& path) {
  std::error_code ignored;
  return path.find_first_of("*?[") != std::string::npos && !std::filesystem::exists(path, ignored);
}

DataFiles with_patterns_expanded(const DataFiles& files, std::string_view key) {
  std::vector<std::string> paths;
  for (const std::string& path : files.paths) {
    const std::vector<std::string> found = is_open_pattern(path) ? files_that_match(path) : std::vector<std::string>();
    for (const std::string& match : found) require_utf8(match, key);
    if (found.empty())
      paths.push_back(path);
    else
      paths.insert(paths.end(), found.begin(), found.end());
  }
  return paths;
}

}  // namespace zero
