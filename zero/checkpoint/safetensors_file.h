// A safetensors file, mapped and checked: every tensor's name, type, shape and bytes, nothing copied.
//
//   const auto file = SafetensorsFile::open("model.safetensors");
//   const SafetensorsEntry& weight = file.at("wte.weight");
//   file.bytes(weight);                        // valid while `file` lives; may be unaligned: memcpy from it
//
// What is accepted is said in safetensors_header.h. ConfigError for a file that is missing or breaks a rule, IoError
// when it cannot be mapped. Local; reading from several threads is safe.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/mapped_file.h"
#include "zero/checkpoint/safetensors_header.h"

namespace zero {

class SafetensorsFile {
 public:
  // `key` is the option that named the file ("model.init"); errors about the contents name `path` itself.
  static SafetensorsFile open(const std::filesystem::path& path, std::string_view key = "file");

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }  // by offset
  const SafetensorsMetadata& metadata() const { return header_.metadata; }
  const SafetensorsEntry* find(std::string_view name) const;  // null: no such tensor
  const SafetensorsEntry& at(std::string_view name) const;    // ConfigError: no such tensor
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;

 private:
  SafetensorsFile(const std::filesystem::path& path);

  std::string path_;
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace zero
