// TimedCalls: the calls that open a tier's files, each with a time limit, for disks and mounts that hang.
//
//   const TimedCalls calls(FileCalls::kernel(), std::chrono::seconds(60));
//   calls.open(path, flags);                 // -ETIMEDOUT if the kernel has no answer by then
//
// Each call runs on a separate thread. A call that hangs is left behind with copies of its arguments; a descriptor that
// it still gets is closed. Preallocation may write every byte, so it has ten times the limit. Calls of checkpoints have
// no limit. Local, thread-safe. The underlying calls must outlive the threads.
#pragma once

#include <chrono>
#include <functional>

#include "zero/memory/io/file_calls.h"

namespace zero {

class TimedCalls final : public FileCalls {
 public:
  TimedCalls(const FileCalls& calls, std::chrono::milliseconds limit) : calls_(calls), limit_(limit) {}

  int try_folder(const std::string& folder) const override;
  int find_room(const std::string& folder, Room& room) const override;
  int open(const std::string& path, int flags) const override;
  int unlink(const std::string& path) const override;
  int is_in_memory(int fd) const override;
  int preallocate(int fd, std::int64_t bytes) const override;
  int resize(int fd, std::int64_t bytes) const override;
  int set_direct(int fd, bool direct) const override;
  ssize_t read(int fd, std::span<std::byte> into, std::int64_t offset) const override;

 private:
  const FileCalls& calls_;
  std::chrono::milliseconds limit_;
};

}  // namespace zero
