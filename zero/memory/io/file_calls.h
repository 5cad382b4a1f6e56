// FileCalls: the system calls of scratch files and checkpoints, one function each. A test can replace them.
//
//   class FullDisk : public FileCalls {
//     int preallocate(int, std::int64_t) const override { return -ENOSPC; }
//   };
//
// A test can let any call fail, or end the process at the n-th call. Functions return the result or a negative errno
// value. An interrupted call is repeated here if it has done nothing, except reads and writes. Local, thread-safe,
// stateless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <sys/types.h>

namespace zero {

class FileCalls {
 public:
  // Free space on a file system; `device` identifies the file system.
  struct Room {
    std::uint64_t device = 0;
    std::int64_t free_bytes = 0;  // for users other than root
  };

  virtual ~FileCalls() = default;
  static const FileCalls& kernel();

  // Returns 0, or the reason why no file can be created in the folder: -ENOENT, -ENOTDIR, -EACCES, -EROFS ...
  virtual int try_folder(const std::string& folder) const;
  virtual int find_room(const std::string& folder, Room& room) const;
  virtual int open(const std::string& path, int flags) const;  // returns a descriptor; adds O_CLOEXEC
  // Opens a file in an open folder by an untrusted name: never through a link, never outside the folder.
  virtual int open_in(int folder, const std::string& name, int flags) const;
  virtual int unlink(const std::string& path) const;
  virtual int is_in_memory(int fd) const;  // 1: a file system without a disk (tmpfs)
  virtual int preallocate(int fd, std::int64_t bytes) const;
  virtual int resize(int fd, std::int64_t bytes) const;
  virtual int set_direct(int fd, bool direct) const;  // true: bypass the page cache (O_DIRECT)
  virtual int duplicate(int fd) const;                // another descriptor of the same file
  virtual int sync(int fd) const;  // makes a file or folder durable: written data survives a power cut
  virtual int make_folder(const std::string& path) const;    // only this user may access it
  virtual int remove_folder(const std::string& path) const;  // must be empty
  virtual int rename(const std::string& from, const std::string& to) const;
  virtual int exchange(const std::string& one, const std::string& other) const;  // both exist; atomic
  virtual ssize_t read(int fd, std::span<std::byte> into, std::int64_t offset) const;
  virtual ssize_t write(int fd, std::span<const std::byte> from, std::int64_t offset) const;

 protected:
  // open_in() for a kernel without openat2(): a name of one component can only leave the folder by being a link.
  static int open_checked(int folder, const std::string& name, int flags);
};

}  // namespace zero
