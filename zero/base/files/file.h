// FileDescriptor, AtomicFile, AppendFile: files through POSIX, with errors that name path, operation and bytes.
//
//   write_file("run/config.toml", text);               // all or nothing, and it survives a power cut
//   AppendFile metrics("run/metrics.jsonl");
//   metrics.append(line);                              // one write(2): lines of several writers never mix
//   AtomicFile model("run/model.safetensors");         // a reader never sees a half-written file under the final name
//   model.write_at(0, bytes);
//   model.commit();
//
// Everything here is Local and throws IoError, with two exceptions: require_input_file and require_output_file check
// the user's paths and throw ConfigError; make_private_folder returns an error code. No class is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <sys/types.h>

namespace zero {

// An owned descriptor; -1 owns nothing.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  // Opens a file. `flags`: as in open(2); O_CLOEXEC is added. A new file gets mode 0666 minus the umask.
  static FileDescriptor open(const std::filesystem::path& path, int flags);

  int get() const { return fd_; }
  int release();

 private:
  int fd_ = -1;
};

// Throws ConfigError(key, path) unless `path` is a regular file that this process may read.
void require_input_file(std::string_view key, const std::filesystem::path& path);

// Throws ConfigError(key, path) unless a file can be created at `path`. The folder must exist. An existing regular file
// is allowed, and will be replaced. A device or a pipe is refused, because replacing would remove it.
void require_output_file(std::string_view key, const std::filesystem::path& path);
// Also refuses an existing file of another kind, which a slip would destroy: it must be empty or start with one of
// `beginnings`. `kind`: "a page of zero report".
void require_output_file(std::string_view key, const std::filesystem::path& path, std::string_view kind,
                         std::initializer_list<std::string_view> beginnings);

// Returns the whole file, also if it reports no size (/proc).
std::string read_file(const std::filesystem::path& path);

// Returns the first `bytes` of an open file, or fewer if it is shorter. `name`: for messages.
std::string read_at_most(int file, std::size_t bytes, std::string_view name);

// Makes a folder that only this user may access. An existing folder keeps its mode. The parent folder must exist.
[[nodiscard]] std::error_code make_private_folder(const std::filesystem::path& path);

struct AtomicFileOptions {
  bool durable = true;  // survives a power cut; false: only atomic
  mode_t mode = 0666;   // minus the umask
};

// Writes an AtomicFile in one call: replaces `path`, or leaves it unchanged.
void write_file(const std::filesystem::path& path, std::string_view text, const AtomicFileOptions& options = {});

// A new file under a temporary name beside `path`. commit() makes it durable and renames it: data, rename, folder, each
// synced in that order. Without commit() the destructor removes it, and an old `path` is unchanged.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path, const AtomicFileOptions& options = {});
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // Reserves disk space for the first `bytes`, so writing them cannot fail for lack of space. If the file system cannot
  // (EOPNOTSUPP), it reserves nothing. Throws IoError if there is too little space.
  void reserve(std::int64_t bytes);
  // Writes in any order; gaps read as zeros.
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  // May be called once, and no write may follow.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool durable_;
  FileDescriptor file_;
  bool committed_ = false;
};

// Appends to a file, which is created if absent.
class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path path);
  void append(std::string_view text);
  void sync();

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace zero
