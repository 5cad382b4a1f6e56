#include "zero/checkpoint/safetensors_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "zero/base/check.h"
#include "zero/base/error.h"
#include "zero/memory/file_calls.h"

namespace zero {

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path, std::string_view key) {
  require_input_file(key, path);
  FileDescriptor file = FileDescriptor::open(path, O_RDONLY | O_NONBLOCK);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw IoError(path.native(), "look at", errno);
  if (!S_ISREG(info.st_mode)) throw IoError(path.native(), "open", 0, "is no regular file");
  return {path.native(), std::move(file), static_cast<std::int64_t>(info.st_size)};
}

SafetensorsFile SafetensorsFile::open_in(const SourceFolder& folder, const std::string& name) {
  SourceFolder::File file = folder.open(name);
  return {folder.path_of(name), std::move(file.descriptor), file.size_bytes};
}

SafetensorsFile::SafetensorsFile(std::string path, FileDescriptor file, std::int64_t size_bytes)
    : path_(std::move(path)), file_(std::move(file)), header_(read_header(size_bytes)) {
  for (std::size_t i = 0; i < header_.entries.size(); ++i) index_.emplace(header_.entries[i].name, i);
}

// The length first: memory is taken for a header that is no larger than the file and than what is allowed.
SafetensorsHeader SafetensorsFile::read_header(std::int64_t size_bytes) const {
  std::vector<std::byte> head(static_cast<std::size_t>(std::min<std::int64_t>(size_bytes, sizeof(std::uint64_t))));
  read_at(0, head);
  head.resize(safetensors_head_bytes(head, size_bytes, path_));
  read_at(0, head);
  return parse_safetensors_header(head, size_bytes, path_);
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

void SafetensorsFile::read(const SafetensorsEntry& entry, std::int64_t offset, std::span<std::byte> out) const {
  ZERO_CHECK(offset >= 0 && offset + std::ssize(out) <= entry.size_bytes(), "{}: {} bytes at {} of {}", path_,
             out.size(), offset, entry.name);
  read_at(header_.buffer_begin + entry.begin + offset, out);
}

void SafetensorsFile::read_at(std::int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = FileCalls::kernel().read(file_.get(), out, offset);
    if (count == -EINTR) continue;
    if (count <= 0)
      throw IoError(path_, fmt::format("read of {} bytes at {}", out.size(), offset), static_cast<int>(-count),
                    count < 0 ? "" : "the file ends before: it has become shorter since it was opened");
    out = out.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

}  // namespace zero
