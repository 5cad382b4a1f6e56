// DataFiles: the files of one split, in the order in which they are read. Most data is one file or one folder.
//
//   DataFiles files = "input.txt";
//   files = with_patterns_expanded({{"first.bin", "shards/train_*.bin"}});   // first.bin, shards/train_000001.bin, ...
//   files.text()                                                             // "first.bin and 103 more"
//
// Values alone; whether the files are there is for those to say who open them. Local.
#pragma once

#include <concepts>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace zero {

struct DataFiles {
  std::vector<std::string> paths;

  DataFiles() = default;
  DataFiles(std::vector<std::string> several) : paths(std::move(several)) {}
  // One; of an empty path, none.
  template <std::convertible_to<std::filesystem::path> Path>
  DataFiles(const Path& path) {
    if (std::filesystem::path one(path); !one.empty()) paths.push_back(one.string());
  }

  bool empty() const { return paths.empty(); }
  // For messages: the first path, and the number of others.
  std::string text() const;
  bool operator==(const DataFiles&) const = default;
};

// A path with *, ? or [ that names no file is a pattern, as a shell has them: the files that match take its place, in the
// order of their bytes. A pattern that nothing matches stays.
DataFiles with_patterns_expanded(const DataFiles& files);

// Is it a pattern that nothing matched?
bool is_open_pattern(const std::string& path);

}  // namespace zero
