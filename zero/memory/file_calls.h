// FileCalls: the system calls of scratch files and checkpoints, one function each, so that a test can let each of them
// fail, or end the process at the n-th.
//
//   class FullDisk : public FileCalls {
//     int preallocate(int, std::int64_t) const override { return -ENOSPC; }
//   };
//
// The result or a negative errno value. An interrupted call is repeated here where it has done nothing; reads and
// writes are not. Local, thread-safe, without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <sys/types.h>

namespace zero {

class FileCalls {
 public:
  // Room on a file system; `device` tells two of them apart.
  struct Room {
    std::uint64_t device = 0;
    std::int64_t free_bytes = 0;  // for users who are not root
  };

  virtual ~FileCalls() = default;
  static const FileCalls& kernel();

  // 0, or what keeps a file from being made in the folder: -ENOENT, -ENOTDIR, -EACCES, -EROFS ...
  virtual int try_folder(const std::string& folder) const;
  virtual int find_room(const std::string& folder, Room& room) const;
  virtual int open(const std::string& path, int flags) const;  // a descriptor; O_CLOEXEC is added
  // A file in an open folder, by a name that may come from somebody else: never through a link, never outside.
  virtual int open_in(int folder, const std::string& name, int flags) const;
  virtual int unlink(const std::string& path) const;
  virtual int lies_in_memory(int fd) const;  // 1: a file system without a disk (tmpfs)
  virtual int preallocate(int fd, std::int64_t bytes) const;
  virtual int resize(int fd, std::int64_t bytes) const;
  virtual int set_direct(int fd, bool direct) const;  // past the page cache (O_DIRECT), or through it
  virtual int duplicate(int fd) const;                // a descriptor of the same file
  virtual int sync(int fd) const;                     // of a file or a folder: what was written survives a power cut
  virtual int make_folder(const std::string& path) const;    // for this user alone
  virtual int remove_folder(const std::string& path) const;  // an empty one
  virtual int rename(const std::string& from, const std::string& to) const;
  virtual int exchange(const std::string& one, const std::string& other) const;  // both exist; at one moment
  virtual ssize_t read(int fd, std::span<std::byte> into, std::int64_t offset) const;
  virtual ssize_t write(int fd, std::span<const std::byte> from, std::int64_t offset) const;

 protected:
  // open_in() of a kernel without openat2(): a name of one component has nowhere to go but through a link of its own.
  static int open_checked(int folder, const std::string& name, int flags);
};

}  // namespace zero
