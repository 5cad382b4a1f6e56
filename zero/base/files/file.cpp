#include "zero/base/files/file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

// Writes all bytes. Each attempt of `call` returns the bytes written, or -1.
template <typename Call>
void write_all(const std::filesystem::path& path, const char* data, std::size_t bytes, Call call) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t count = call(data + done, bytes - done, done);
    const int error = count == 0 ? ENOSPC : errno;
    if (count < 0 && error == EINTR) continue;
    if (count <= 0) throw IoError(path.native(), fmt::format("write of {} bytes", bytes), error);
    done += static_cast<std::size_t>(count);
  }
}

// A failed fsync is final: the kernel has dropped the dirty pages, and a second call would report success.
void sync_file(int fd, const std::filesystem::path& path) {
  if (::fsync(fd) != 0) throw IoError(path.native(), "fsync", errno);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

FileDescriptor FileDescriptor::open(const std::filesystem::path& path, int flags) {
  int fd;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) throw IoError(path.native(), "open", errno);
  return FileDescriptor(fd);
}

int FileDescriptor::release() {
  return std::exchange(fd_, -1);
}

void require_input_file(std::string_view key, const std::filesystem::path& path) {
  const auto refuse = [&](std::string_view reason, std::string_view remedy) {
    throw ConfigError(key, path.native(), reason, remedy);
  };
  if (path.empty()) refuse("no file was given", "Give the path of a file.");
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR)
      refuse("no such file",
             fmt::format("Check the spelling; paths are relative to {}.", std::filesystem::current_path().native()));
    refuse(std::generic_category().message(error), "Check the path and its folders' permissions.");
  }
  if (S_ISDIR(info.st_mode)) refuse("is a folder", "Give the path of a file in it.");
  if (!S_ISREG(info.st_mode))
    refuse("is not a regular file", "Pipes and devices cannot be read twice; save the contents to a file first.");
  if (::access(path.c_str(), R_OK) != 0)
    refuse("this user may not read it", fmt::format("Run chmod +r '{}', or run as its owner.", path.native()));
}

void require_output_file(std::string_view key, const std::filesystem::path& path) {
  const auto refuse = [&](std::string_view reason, std::string_view remedy) {
    throw ConfigError(key, path.native(), reason, remedy);
  };
  if (path.empty()) refuse("no file was given", "Give the path of a file.");
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder_of(path), ignored))
    refuse(fmt::format("there is no folder {}", folder_of(path).native()), "Create the folder, or name another file.");
  const auto there = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(there)) refuse("is a folder", "Give the path of a file in it.");
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    refuse("is not a regular file", "A file would replace the device or pipe: name another file.");
}

void require_output_file(std::string_view key, const std::filesystem::path& path, std::string_view kind,
                         std::initializer_list<std::string_view> beginnings) {
  require_output_file(key, path);
  std::ifstream there(path, std::ios::binary);
  if (!there) return;
  std::size_t longest = 0;
  for (const std::string_view beginning : beginnings) longest = std::max(longest, beginning.size());
  std::string first(longest, '\0');
  there.read(first.data(), static_cast<std::streamsize>(longest));
  first.resize(static_cast<std::size_t>(there.gcount()));
  if (first.empty()) return;
  for (const std::string_view beginning : beginnings)
    if (first.starts_with(beginning)) return;
  throw ConfigError(key, path.native(), fmt::format("exists already, and is not {}", kind),
                    "name another file, or remove this file");
}

std::string read_file(const std::filesystem::path& path) {
  const FileDescriptor file = FileDescriptor::open(path, O_RDONLY);
  std::string text;
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw IoError(path.native(), "read", errno);
    if (count == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
}

std::string read_at_most(int file, std::size_t bytes, std::string_view name) {
  std::string text(bytes, '\0');
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t count = ::pread(file, text.data() + done, bytes - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw IoError(name, fmt::format("read of {} bytes at {}", bytes - done, done), errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  text.resize(done);
  return text;
}

std::error_code make_private_folder(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST) return {};
  return {errno, std::generic_category()};
}

void write_file(const std::filesystem::path& path, std::string_view text, const AtomicFileOptions& options) {
  AtomicFile file(path, options);
  file.write_at(0, std::as_bytes(std::span(text)));
  file.commit();
}

AtomicFile::AtomicFile(std::filesystem::path path, const AtomicFileOptions& options)
    : path_(std::move(path)), durable_(options.durable) {
  for (int attempt = 0;; ++attempt) {
    temporary_ = path_;
    temporary_ += fmt::format(".tmp-{}-{}", ::getpid(), attempt);
    file_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, options.mode));
    if (file_.get() >= 0) return;
    // EEXIST: another writer of the same file, or the file of a killed writer that had this process number.
    const int error = errno;
    if (error != EEXIST || attempt == 1000) throw IoError(temporary_.native(), "create", error);
  }
}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::reserve(std::int64_t bytes) {
  if (bytes <= 0) return;
  int error = 0;
  do {
    error = ::fallocate(file_.get(), 0, 0, bytes) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error != 0 && error != EOPNOTSUPP && error != ENOSYS)
    throw IoError(path_.native(), fmt::format("reserve {} bytes", bytes), error);
}

void AtomicFile::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
  ZERO_CHECK(offset >= 0 && !committed_, "{}: write at {}", path_.native(), offset);
  write_all(path_, reinterpret_cast<const char*>(bytes.data()), bytes.size(),
            [&](const char* data, std::size_t count, std::size_t done) {
              return ::pwrite(file_.get(), data, count, offset + static_cast<off_t>(done));
            });
}

void AtomicFile::commit() {
  ZERO_CHECK(!committed_, "{}: committed twice", path_.native());
  if (durable_) sync_file(file_.get(), temporary_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw IoError(path_.native(), "rename to this name", errno);
  committed_ = true;
  if (!durable_) return;
  const auto folder = folder_of(path_);
  sync_file(FileDescriptor::open(folder, O_RDONLY | O_DIRECTORY).get(), folder);
}

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)), file_(FileDescriptor::open(path_, O_WRONLY | O_CREAT | O_APPEND)) {}

void AppendFile::append(std::string_view text) {
  write_all(path_, text.data(), text.size(),
            [&](const char* data, std::size_t count, std::size_t) { return ::write(file_.get(), data, count); });
}

void AppendFile::sync() {
  sync_file(file_.get(), path_);
}

}  // namespace zero
