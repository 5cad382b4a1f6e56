// DataFiles: the files of one split, in reading order. Most data is one file or one folder.
//
//   DataFiles files = "input.txt";
//   files = with_patterns_expanded({{"first.bin", "t_*.bin"}}, "data.path");   // first.bin, t_01.bin, t_02.bin, ...
//   files.text()                                                               // "first.bin and 103 more"
//
// Values only: the code that opens the files checks that they exist. Local.
#pragma once

#include <concepts>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zero {

struct DataFiles {
  std::vector<std::string> paths;

  DataFiles() = default;
  DataFiles(std::vector<std::string> several) : paths(std::move(several)) {}
  // One path; none if it is empty.
  template <std::convertible_to<std::filesystem::path> Path>
  DataFiles(const Path& path) {
    if (std::filesystem::path one(path); !one.empty()) paths.push_back(one.string());
  }

  bool empty() const { return paths.empty(); }
  // Describes the files in messages: the first path, and the number of others.
  std::string text() const;
  bool operator==(const DataFiles&) const = default;
};

// Replaces each pattern by the matching files in byte order. A pattern is a path with *, ? or [ that names no file. A
// pattern without matches stays. `key` names the patterns in errors. Throws ConfigError if the name of a matching file
// is not UTF-8: config.toml and report.json of a run cannot hold it.
DataFiles with_patterns_expanded(const DataFiles& files, std::string_view key);

// Returns whether the path is a pattern without matches.
bool is_open_pattern(const std::string& path);

}  // namespace zero
