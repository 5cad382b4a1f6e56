#include "zero/checkpoint/safetensors_file.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/base/file.h"

namespace zero {

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path, std::string_view key) {
  require_input_file(key, path);
  return SafetensorsFile(path);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(path), header_(parse_safetensors_header(file_.bytes(), path_)) {
  for (std::size_t i = 0; i < header_.entries.size(); ++i) index_.emplace(header_.entries[i].name, i);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.entries[found->second];
}

const SafetensorsEntry& SafetensorsFile::at(std::string_view name) const {
  if (const SafetensorsEntry* const entry = find(name)) return *entry;
  std::string held;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, entries().size()); ++i)
    held += (i == 0 ? "" : ", ") + entries()[i].name.substr(0, 64);
  throw ConfigError(path_, "", fmt::format("holds no tensor '{}'", name),
                    fmt::format("It holds {} tensors{}{}. See them all with: zero inspect {}", entries().size(),
                                held.empty() ? "" : ", among them ", held, path_));
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return file_.bytes().subspan(static_cast<std::size_t>(header_.buffer_begin + entry.begin),
                               static_cast<std::size_t>(entry.size_bytes()));
}

}  // namespace zero
