#include "zero/checkpoint/safetensors/safetensors_file.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

// Reads the length first: a header that is larger than the file, or than the limit, gets no memory.
SafetensorsHeader read_header(const InputFile& file) {
  std::vector<std::byte> head(
      static_cast<std::size_t>(std::min<std::int64_t>(file.size_bytes(), sizeof(std::uint64_t))));
  file.read_at(0, head);
  head.resize(safetensors_head_bytes(head, file.size_bytes(), file.path()));
  file.read_at(0, head);
  return parse_safetensors_header(head, file.size_bytes(), file.path());
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path, std::string_view key) {
  require_input_file(key, path);
  return SafetensorsFile(InputFile(path));
}

SafetensorsFile SafetensorsFile::open_in(const SourceFolder& folder, const std::string& name) {
  return SafetensorsFile(InputFile(folder.path_of(name), folder.open(name).descriptor));
}

SafetensorsFile::SafetensorsFile(InputFile file) : file_(std::move(file)), header_(read_header(file_)) {
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
  throw ConfigError(path(), "", fmt::format("holds no tensor '{}'", name),
                    fmt::format("It holds {} tensors{}{}. List all of them with: zero inspect {}", entries().size(),
                                held.empty() ? "" : ", among them ", held, path()));
}

void SafetensorsFile::read(const SafetensorsEntry& entry, std::int64_t offset, std::span<std::byte> out) const {
  ZERO_CHECK(offset >= 0 && offset + std::ssize(out) <= entry.size_bytes(), "{}: {} bytes at {} of {}", path(),
             out.size(), offset, entry.name);
  file_.read_at(header_.buffer_begin + entry.begin + offset, out);
}

}  // namespace zero
