#include "zero/base/files/proc_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include <fcntl.h>
#include <unistd.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

// Reads to the end, because these files report no size. Returns 0 or an errno value.
int read_whole(const std::string& path, std::string& text) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno;
  std::array<char, 4096> block{};
  ssize_t count = 0;
  while ((count = read(file, block.data(), block.size())) != 0) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
  const int error = count < 0 ? errno : 0;
  close(file);
  return error;
}

}  // namespace

std::string read_proc_file(const std::string& path) {
  std::string text;
  if (const int error = read_whole(path, text); error != 0) throw IoError(path, "read", error);
  return text;
}

std::optional<std::string> try_read_proc_file(const std::string& path) {
  std::string text;
  if (read_whole(path, text) != 0) return std::nullopt;
  return text;
}

std::optional<std::int64_t> field_kib(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(name) || line.substr(name.size(), 1) != ":") continue;
    const auto digits = line.find_first_of("0123456789", name.size());
    std::int64_t kib = 0;
    if (digits == std::string_view::npos) return std::nullopt;
    if (std::from_chars(line.data() + digits, line.data() + line.size(), kib).ec != std::errc{}) return std::nullopt;
    return kib * 1024;
  }
  return std::nullopt;
}

}  // namespace zero
