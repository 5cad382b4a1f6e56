#include "zero/checkpoint/safetensors_set.h"

#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/safetensors/block_file.h"
#include "zero/checkpoint/safetensors/weight_index.h"
#include "zero/checkpoint/whole_checkpoint.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFile = "model.safetensors", kIndexSuffix = ".index.json";
constexpr std::int64_t kMostIndexBytes = std::int64_t{64} << 20;

// An index, and the error for it.
struct Index {
  std::string_view key;
  fs::path path;

  [[noreturn]] void refuse(const std::string& reason) const {
    throw ConfigError(key, path.native(), reason,
                      "`zero export` writes an index and its files into one folder: copy all of these files");
  }
  // Runs `body`, and reports a file that cannot be read, or is no JSON, under the key that named the index.
  template <typename Body>
  auto checked(Body body) const {
    try {
      return body();
    } catch (const IoError& error) {
      refuse(error.what());
    }
  }
};

fs::path file_named_by(const fs::path& path, std::string_view key) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  const std::string name(kFile), index = name + std::string(kIndexSuffix);
  const bool has_file = fs::exists(path / name, ignored), has_index = fs::exists(path / index, ignored);
  if (has_file == has_index) {
    const bool has_checkpoint = is_checkpoint(path) || !CheckpointFolder(path / "checkpoints").list().empty();
    throw ConfigError(
        key, path.native(),
        fmt::format("is a folder that holds {} {} {} {}", has_file ? "both" : "neither", name, has_file ? "and" : "nor",
                    index),
        !has_file && has_checkpoint
            ? fmt::format("`zero export {} -o DIR` writes the weights of its checkpoint: name DIR.", path.native())
            : "Name one of its files.");
  }
  return path / (has_file ? name : index);
}

// Requires that each tensor is in the file that the index names, and in no other.
void require_agreement(const WeightMap& wanted, const std::map<std::string, const SafetensorsFile*>& files,
                       const Index& index) {
  for (const auto& [tensor, name] : wanted)
    if (files.at(name)->find(tensor) == nullptr)
      index.refuse(fmt::format("names {:.64} for {:.64}, which is not in that file", name, tensor));
  for (const auto& [name, file] : files) {
    for (const SafetensorsEntry& entry : file->entries()) {
      const auto found = wanted.find(entry.name);
      if (found == wanted.end())
        index.refuse(fmt::format("{:.64} holds {:.64}, which it does not name", name, entry.name));
      if (found->second != name)
        index.refuse(fmt::format("{:.64} is in {:.64} and in {:.64}", entry.name, found->second, name));
    }
  }
}

std::vector<SafetensorsFile> open_shards(const Index& index) {
  const fs::path parent = index.path.has_parent_path() ? index.path.parent_path() : fs::path(".");
  const SourceFolder folder = index.checked([&] { return SourceFolder(parent); });
  const WeightMap wanted = index.checked([&] {
    return parse_weight_index(folder.read_text(index.path.filename().string(), kMostIndexBytes), index.path.native());
  });
  std::set<std::string> names;
  for (const auto& [tensor, name] : wanted) names.insert(name);
  std::vector<SafetensorsFile> files;
  for (const std::string& name : names)
    files.push_back(index.checked([&] { return SafetensorsFile::open_in(folder, name); }));
  std::map<std::string, const SafetensorsFile*> by_name;
  for (auto name = names.begin(); const SafetensorsFile& file : files) by_name.emplace(*name++, &file);
  require_agreement(wanted, by_name, index);
  return files;
}

}  // namespace

SafetensorsSet SafetensorsSet::open(const fs::path& path, std::string_view key) {
  const fs::path file = file_named_by(path, key);
  if (file.native().ends_with(kIndexSuffix)) {
    require_input_file(key, file);
    return SafetensorsSet(open_shards({.key = key, .path = file}));
  }
  std::vector<SafetensorsFile> files;
  files.push_back(SafetensorsFile::open(file, key));
  return SafetensorsSet(std::move(files));
}

SafetensorsSet::SafetensorsSet(std::vector<SafetensorsFile> files) : files_(std::move(files)) {
  for (const SafetensorsFile& file : files_)
    for (const SafetensorsEntry& entry : file.entries()) tensors_.push_back({&entry, &file});
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].entry->name, i);
}

const SafetensorsSet::Tensor* SafetensorsSet::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace zero
