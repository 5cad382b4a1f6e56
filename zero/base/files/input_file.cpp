#include "zero/base/files/input_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {

// O_NONBLOCK: opening must not block if a pipe has replaced the file.
InputFile::InputFile(const std::filesystem::path& path, Pread pread)
    : InputFile(path.native(), FileDescriptor::open(path, O_RDONLY | O_NONBLOCK), pread) {}

InputFile::InputFile(std::string path, FileDescriptor file, Pread pread)
    : path_(std::move(path)), file_(std::move(file)), pread_(pread) {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) throw IoError(path_, "look at", errno);
  if (!S_ISREG(info.st_mode)) throw IoError(path_, "open", 0, "is not a regular file");
  size_bytes_ = info.st_size;
}

void InputFile::read_at(std::int64_t offset, std::span<std::byte> out) const {
  ZERO_CHECK(offset >= 0 && std::ssize(out) <= size_bytes_ - offset, "{}: {} bytes at {} of {}", path_, out.size(),
             offset, size_bytes_);
  while (!out.empty()) {
    const ssize_t count = pread_(file_.get(), out.data(), out.size(), offset);
    const int error = errno;
    if (count < 0 && error == EINTR) continue;
    if (count < 0) throw IoError(path_, fmt::format("read of {} bytes at {}", out.size(), offset), error);
    if (count == 0) throw_shorter(offset, out.size());
    out = out.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

std::string InputFile::read_all() const {
  std::string text(static_cast<std::size_t>(size_bytes_), '\0');
  read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void InputFile::throw_shorter(std::int64_t offset, std::size_t bytes) const {
  struct stat info {};
  const bool known = ::fstat(file_.get(), &info) == 0;
  throw IoError(path_, fmt::format("read of {} bytes at {}", bytes, offset), 0,
                fmt::format("the file became shorter: it ended after {} bytes, and it had {} when it was opened",
                            known ? std::min<std::int64_t>(info.st_size, offset) : offset, size_bytes_));
}

}  // namespace zero
