// FaultyDisk: a disk on which one request fails. Its files are real, its bytes are in memory.
//
//   FaultyDisk disk({.kind = DiskFault::Kind::kHangs, .at = 17});
//   ScriptedModel model(comm, specs, options, {.seams = {.disk_seam = &disk.seam}});
//
// Requests complete at once, so every run makes the same requests in the same order.
#pragma once

#include <string>

#include "zero/base/text/bytes.h"
#include "zero/memory/disk/disk_seam.h"

#include "tests/memory/scripted_queue.h"

namespace zero {

struct DiskFault {
  // kUnsteady fails no request: calls are interrupted, and answers are early or short. A caller that retries gets all
  // bytes.
  enum class Kind : std::uint8_t { kNone, kError, kFull, kEndsEarly, kHangs, kRefused, kBroken, kUnsteady };
  Kind kind = Kind::kNone;
  int at = 0;  // index of the request, from 0
};

inline std::string name_of(DiskFault::Kind kind) {
  constexpr std::array<const char*, 8> kNames{"none",  "EIO",     "ENOSPC",       "the file ends",
                                              "hangs", "refused", "queue breaks", "unsteady"};
  return kNames[static_cast<std::size_t>(kind)];
}

class FaultyDisk {
  // The files exist but take no space, because nothing is written to them.
  struct SparseFiles : FileCalls {
    int preallocate(int fd, std::int64_t bytes) const override { return resize(fd, bytes); }
  };

 public:
  explicit FaultyDisk(DiskFault fault = {}) : fault_(fault) {
    disk_.answer = [this](const IoRequest& request) { return answer(request); };
    seam.make_queue = [this](std::span<const int>, int) { return disk_.queue(); };
    refuse_if_next();
  }
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  const SparseFiles files{};
  DiskSeam seam{.files = &files, .opening_limit = std::chrono::seconds(60)};

  int num_requests() const { return num_requests_; }
  int num_unsteady() const { return num_unsteady_; }
  void fail_next(DiskFault::Kind kind) {
    fault_ = {kind, num_requests_};
    refuse_if_next();
  }
  bool failed() const { return num_requests_ > fault_.at || disk_.submit_error != 0; }
  // The error text after the path. A refused request has no operation in its text.
  std::string what_is_said() const {
    switch (fault_.kind) {
      case DiskFault::Kind::kNone:
      case DiskFault::Kind::kUnsteady:
        return "";
      case DiskFault::Kind::kError:
        return operation_ + ": Input/output error";
      case DiskFault::Kind::kFull:
        return operation_ + ": No space left on device";
      case DiskFault::Kind::kEndsEarly:
        return operation_ + ": Input/output error: only the first";
      case DiskFault::Kind::kHangs:
        return operation_ + ": no answer for";
      case DiskFault::Kind::kRefused:
        return ": Cannot allocate memory: the request was refused";
      case DiskFault::Kind::kBroken:
        return "wait for scripted: Input/output error";
    }
    return "";
  }

 private:
  std::int64_t answer(const IoRequest& request) {
    const auto bytes = static_cast<std::int64_t>(request.memory.size());
    if (request.file == ended_file_ && request.offset >= ended_at_ && request.offset < ended_at_ + ended_bytes_)
      return 0;
    if (fault_.kind == DiskFault::Kind::kUnsteady) return unsteady(bytes);
    const bool fails = num_requests_++ == fault_.at;
    refuse_if_next();
    if (!fails || fault_.kind == DiskFault::Kind::kNone || fault_.kind == DiskFault::Kind::kRefused) return bytes;
    operation_ = (request.operation == IoOperation::kRead ? "read of " : "write of ") + format_count(bytes) +
                 " bytes at " + format_count(request.offset);
    if (fault_.kind == DiskFault::Kind::kError) return -EIO;
    if (fault_.kind == DiskFault::Kind::kFull) return -ENOSPC;
    if (fault_.kind == DiskFault::Kind::kHangs) return ScriptedDisk::kNever;
    if (fault_.kind == DiskFault::Kind::kBroken) {
      disk_.reap_error = EIO;
      return ScriptedDisk::kNever;
    }
    ended_file_ = request.file;
    ended_at_ = request.offset;
    ended_bytes_ = bytes;
    return bytes / 2;
  }

  std::int64_t unsteady(std::int64_t bytes) {
    switch (++num_unsteady_ % 8) {
      case 1:
        return -EINTR;
      case 3:
        return -EAGAIN;
      case 4:
        return bytes / 3 + 7;
      case 6:
        return bytes / 2;
      default:
        return bytes;
    }
  }

  void refuse_if_next() {
    if (fault_.kind == DiskFault::Kind::kRefused && num_requests_ == fault_.at) disk_.submit_error = ENOMEM;
  }

  DiskFault fault_;
  ScriptedDisk disk_;
  int num_requests_ = 0;
  int num_unsteady_ = 0;
  std::string operation_;
  int ended_file_ = -1;
  std::int64_t ended_at_ = 0, ended_bytes_ = 0;
};

}  // namespace zero
