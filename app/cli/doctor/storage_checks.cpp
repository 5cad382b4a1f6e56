#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/files/random_bytes.h"
#include "zero/base/process/clock.h"
#include "zero/memory/account/host_memory.h"
#include "zero/memory/disk/disk_tier.h"
#include "zero/memory/io/uring_queue.h"

#include "app/cli/doctor/finding.h"

namespace zero::cli {
namespace {

template <typename Body>
double seconds_of(Body body) {
  const double begin = monotonic_seconds();
  body();
  return monotonic_seconds() - begin;
}

Finding uring(int error) {
  if (error == 0) return {"io_uring", Health::kOk, "works", ""};
  return {"io_uring", Health::kWarn, std::strerror(error),
          error == ENOSYS ? "a kernel of 5.11 or later has it; reads and writes use threads until then"
                          : "allowed by sysctl kernel.io_uring_disabled=0 and the container's seccomp profile; threads "
                            "are used until then"};
}

// Measures the tier of `[zero] disk = ["."]`: 64 MiB are written and read back. The second round counts; the first
// round also allocates space.
Finding disk_tier(DiskEngine engine) {
  constexpr std::size_t kDiskBytes = 64 << 20;
  try {
    DiskTier disk({.paths = {"."}, .bytes = kDiskBytes, .engine = engine, .checksums = true});
    const Allocation block = allocate_host(kDiskBytes);
    fill_with_random_bytes(block.bytes());
    const std::int64_t place = disk.reserve(kDiskBytes);
    double write_seconds = 0, read_seconds = 0;
    for (int round = 0; round < 2; ++round) {
      write_seconds = seconds_of([&] { disk.write(place, block.bytes()).wait(); });
      read_seconds = seconds_of([&] { disk.read(place, block.bytes()).wait(); });
    }
    const std::string found = disk.describe();
    const bool direct = found.find("O_DIRECT") != found.npos;
    return {"disk tier", direct ? Health::kOk : Health::kWarn,
            fmt::format("{}, in the current folder: writes {:.1f} GB/s, reads {:.1f} GB/s", found,
                        kDiskBytes / 1e9 / write_seconds, kDiskBytes / 1e9 / read_seconds),
            direct ? "" : "states on this folder take memory: name a folder on a disk instead"};
  } catch (const Error& error) {
    const std::string reason = error.what();
    return {"disk tier", Health::kWarn, reason.substr(0, reason.find('\n')),
            "run from a folder on a disk, or name one for states in zero.disk"};
  }
}

Finding durable_writes() {
  constexpr std::size_t kDiskBytes = 64 << 20;
  constexpr std::size_t kPiece = 4 << 20;
  std::string path = "./.zero-doctor-XXXXXX";
  const FileDescriptor file(mkostemp(path.data(), O_CLOEXEC));
  if (file.get() < 0) {
    return {"disk", Health::kWarn, fmt::format("the current folder cannot be written: {}", std::strerror(errno)),
            "run from a folder you may write to, or set [run] dir to one"};
  }
  unlink(path.c_str());
  const std::vector<char> piece(kPiece, '\x5a');
  bool written = true;
  int error = 0;
  const double seconds = seconds_of([&] {
    for (std::size_t at = 0; written && at < kDiskBytes; at += kPiece)
      written = write(file.get(), piece.data(), kPiece) == static_cast<ssize_t>(kPiece);
    written = written && fsync(file.get()) == 0;
    error = errno;
  });
  if (!written)
    return {"disk", Health::kFail, fmt::format("64 MiB could not be written here: {}", std::strerror(error)),
            "free some space, or run from another folder"};
  const double rate = static_cast<double>(kDiskBytes) / 1e6 / seconds;
  const bool slow = rate < 50;
  return {"disk", slow ? Health::kWarn : Health::kOk,
          fmt::format("{:.0f} MB/s written and synced in the current folder", rate),
          slow ? "runs will wait for their files; put [run] dir on a local disk" : ""};
}

}  // namespace

std::vector<Finding> check_storage() {
  const std::array<int, 1> files{STDIN_FILENO};
  const int error = open_uring_queue(files, 1).error;
  return {uring(error), disk_tier(error == 0 ? DiskEngine::kUring : DiskEngine::kThreads), durable_writes()};
}

}  // namespace zero::cli
