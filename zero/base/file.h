// Files: reading and writing through POSIX, with errors that name the path, the operation and the bytes.
//
//   write_file("run/config.toml", text);               // all of it or nothing, and it survives a power cut
//   AppendFile metrics("run/metrics.jsonl");
//   metrics.append(line);                              // one write(2): lines of several writers never mix
//   AtomicFile model("run/model.safetensors");         // a reader never sees a half-written file under the final name
//   model.write_at(0, bytes);
//   model.commit();
//
// Everything here is Local and throws IoError, except require_input_file and require_output_file, which judge what a user
// asked for and throw ConfigError, and make_private_folder, which returns what is wrong. None of the classes is thread-safe.
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

  // `flags` as in open(2); O_CLOEXEC is added, a new file gets 0666 minus the umask.
  static FileDescriptor open(const std::filesystem::path& path, int flags);

  int get() const { return fd_; }
  int release();

 private:
  int fd_ = -1;
};

// Throws ConfigError(key, path) unless `path` is a regular file that this process may read.
void require_input_file(std::string_view key, const std::filesystem::path& path);

// Throws ConfigError(key, path) unless a file can get the name `path`: in a folder that is there, where nothing is called
// so but a regular file, which is replaced. A device or a pipe would be replaced, too, and be gone.
void require_output_file(std::string_view key, const std::filesystem::path& path);
// The same of one kind of file: what is there already begins as such a file does, or is empty. Another is not replaced, as
// a slip would else cost. `kind`: "a page of zero report".
void require_output_file(std::string_view key, const std::filesystem::path& path, std::string_view kind,
                         std::initializer_list<std::string_view> beginnings);

// The whole file, also one that reports no size (/proc).
std::string read_file(const std::filesystem::path& path);

// The first `bytes` of an open file, or fewer where it has no more. `name` is for messages.
std::string read_at_most(int file, std::size_t bytes, std::string_view name);

// Makes a folder for this user alone; one that is there stays as its owner wants it. The folder around it must be
// there.
[[nodiscard]] std::error_code make_private_folder(const std::filesystem::path& path);

struct AtomicFileOptions {
  bool durable = true;  // survives a power cut; else it is only there whole or not at all
  mode_t mode = 0666;   // minus the umask
};

// AtomicFile in one call: replaces `path`, or leaves it as it was.
void write_file(const std::filesystem::path& path, std::string_view text, const AtomicFileOptions& options = {});

// A new file under a temporary name beside `path`. commit() makes it durable and gives it its name: data, rename,
// folder, each synced in that order. Without commit() the destructor removes it and an old `path` is untouched.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path, const AtomicFileOptions& options = {});
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // Takes the room of the first `bytes` on the disk, so that writing them cannot find it full. On a file system that
  // cannot (EOPNOTSUPP) nothing is taken; IoError where there is no room.
  void reserve(std::int64_t bytes);
  // Any order; a gap that nobody writes reads as zeros.
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  // Once; nothing may be written afterwards.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool durable_;
  FileDescriptor file_;
  bool committed_ = false;
};

// Grows a file at its end; created when absent.
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
