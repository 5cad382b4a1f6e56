// FailingCalls: system calls that fail if a test says so. All other calls reach the kernel.
//
//   FailingCalls calls;
//   calls.on_preallocate = -ENOSPC;
//   ScratchFile(folder, bytes, calls);      // throws
//
// 0: the kernel decides.
#pragma once

#include <cerrno>

#include <fcntl.h>

#include "zero/memory/io/file_calls.h"

namespace zero {

class FailingCalls : public FileCalls {
 public:
  int on_try_folder = 0, on_find_room = 0, on_unnamed = 0, on_create = 0, on_unlink = 0, on_is_in_memory = 0;
  int on_preallocate = 0, on_resize = 0, on_direct = 0, on_buffered = 0, on_duplicate = 0, on_read = 0, on_write = 0;
  int on_sync = 0, on_make_folder = 0, on_remove_folder = 0, on_rename = 0, on_exchange = 0;
  mutable int names_taken = 0;   // number of names that already exist
  std::int64_t free_bytes = -1;  // of every file system; negative: the kernel's number

  int try_folder(const std::string& folder) const override {
    return on_try_folder != 0 ? on_try_folder : FileCalls::try_folder(folder);
  }
  int find_room(const std::string& folder, Room& room) const override {
    if (on_find_room != 0) return on_find_room;
    const int result = FileCalls::find_room(folder, room);
    if (free_bytes >= 0) room.free_bytes = free_bytes;
    return result;
  }
  int open(const std::string& path, int flags) const override {
    if ((flags & O_CREAT) == 0) return on_unnamed != 0 ? on_unnamed : FileCalls::open(path, flags);
    if (names_taken > 0) return --names_taken, -EEXIST;
    return on_create != 0 ? on_create : FileCalls::open(path, flags);
  }
  int unlink(const std::string& path) const override { return on_unlink != 0 ? on_unlink : FileCalls::unlink(path); }
  int is_in_memory(int fd) const override {
    return on_is_in_memory != 0 ? on_is_in_memory : FileCalls::is_in_memory(fd);
  }
  int preallocate(int fd, std::int64_t bytes) const override {
    return on_preallocate != 0 ? on_preallocate : FileCalls::preallocate(fd, bytes);
  }
  int resize(int fd, std::int64_t bytes) const override {
    return on_resize != 0 ? on_resize : FileCalls::resize(fd, bytes);
  }
  int set_direct(int fd, bool direct) const override {
    const int refused = direct ? on_direct : on_buffered;
    return refused != 0 ? refused : FileCalls::set_direct(fd, direct);
  }
  int sync(int fd) const override { return on_sync != 0 ? on_sync : FileCalls::sync(fd); }
  int make_folder(const std::string& path) const override {
    return on_make_folder != 0 ? on_make_folder : FileCalls::make_folder(path);
  }
  int remove_folder(const std::string& path) const override {
    return on_remove_folder != 0 ? on_remove_folder : FileCalls::remove_folder(path);
  }
  int rename(const std::string& from, const std::string& to) const override {
    return on_rename != 0 ? on_rename : FileCalls::rename(from, to);
  }
  int exchange(const std::string& one, const std::string& other) const override {
    return on_exchange != 0 ? on_exchange : FileCalls::exchange(one, other);
  }
  int duplicate(int fd) const override { return on_duplicate != 0 ? on_duplicate : FileCalls::duplicate(fd); }
  ssize_t read(int fd, std::span<std::byte> into, std::int64_t offset) const override {
    return on_read != 0 ? on_read : FileCalls::read(fd, into, offset);
  }
  ssize_t write(int fd, std::span<const std::byte> from, std::int64_t offset) const override {
    return on_write != 0 ? on_write : FileCalls::write(fd, from, offset);
  }
};

}  // namespace zero
