// SafetensorsSet: the tensors of one safetensors file, or of several files that an index lists.
//
//   const auto set = SafetensorsSet::open("export/model.safetensors.index.json", "model.init");
//   const SafetensorsSet::Tensor* weight = set.find("wte.weight");     // null: no tensor has that name
//   weight->file->read(*weight->entry, 0, bytes);
//
// open() accepts a safetensors file; an index, NAME.index.json, as `zero export` and Hugging Face write it; or a folder
// that holds either model.safetensors or model.safetensors.index.json. An index is accepted only if
//   - it has at most 64 MiB, and weight_index.h accepts it;
//   - each file that it names is a regular file in its own folder;
//   - weight_map has exactly the tensors of these files, each with its file, and each tensor is in one file.
// Only headers are held in memory, and every file stays open. A refused path is a ConfigError under the key that named
// it; a file with bad contents is a ConfigError under the file's path. Local; reading from several threads is safe.
#pragma once

#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "zero/checkpoint/safetensors/safetensors_file.h"

namespace zero {

class SafetensorsSet {
 public:
  struct Tensor {
    const SafetensorsEntry* entry;
    const SafetensorsFile* file;
  };

  // `key`: the option that named `path`.
  static SafetensorsSet open(const std::filesystem::path& path, std::string_view key);
  SafetensorsSet(SafetensorsSet&&) = default;

  const std::vector<Tensor>& tensors() const { return tensors_; }  // file by file, by offset
  const Tensor* find(std::string_view name) const;

 private:
  explicit SafetensorsSet(std::vector<SafetensorsFile> files);

  std::vector<SafetensorsFile> files_;
  std::vector<Tensor> tensors_;
  std::map<std::string_view, std::size_t> index_;
};

}  // namespace zero
