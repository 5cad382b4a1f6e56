// SafetensorsFile: an opened and checked safetensors file, with every tensor's name, type and shape.
//
//   const auto file = SafetensorsFile::open("model.safetensors");
//   const SafetensorsEntry& weight = file.at("wte.weight");
//   file.read(weight, 0, bytes);               // its first bytes, as many as fit
//
// safetensors_header.h lists the rules for a file. Only the header is held in memory; read() reads values. Throws
// ConfigError if the file is missing or breaks a rule. Throws IoError if it cannot be read, or has become shorter since
// it was opened. Local; reading from several threads is safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/files/input_file.h"
#include "zero/checkpoint/safetensors/block_file.h"
#include "zero/checkpoint/safetensors/safetensors_header.h"

namespace zero {

class SafetensorsFile {
 public:
  // `key`: the option that named the file ("model.init"). Errors about the contents name `path`.
  static SafetensorsFile open(const std::filesystem::path& path, std::string_view key = "file");
  // Opens a file whose name is untrusted. Throws IoError if it is no regular file in the folder.
  static SafetensorsFile open_in(const SourceFolder& folder, const std::string& name);

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }  // by offset
  const SafetensorsMetadata& metadata() const { return header_.metadata; }
  const SafetensorsEntry* find(std::string_view name) const;  // null: no such tensor
  const SafetensorsEntry& at(std::string_view name) const;    // ConfigError: no such tensor
  const std::string& path() const { return file_.path(); }
  // Reads the bytes of an entry from `offset` on. All of `out` must be inside the entry.
  void read(const SafetensorsEntry& entry, std::int64_t offset, std::span<std::byte> out) const;

 private:
  explicit SafetensorsFile(InputFile file);

  InputFile file_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace zero
