#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zero/base/file.h"
#include "zero/cli/finding.h"

namespace zero::cli {
namespace {

Finding io_uring() {
  io_uring_params params{};
  const auto fd = static_cast<int>(syscall(__NR_io_uring_setup, 4, &params));
  if (fd >= 0) {
    close(fd);
    return {"io_uring", Health::kOk, fmt::format("works, features {:#x}", params.features), ""};
  }
  return {"io_uring", Health::kWarn, std::strerror(errno),
          errno == ENOSYS ? "a kernel of 5.1 or later has it; reads and writes use threads until then"
                          : "allowed by sysctl kernel.io_uring_disabled=0 and the container's seccomp profile; threads "
                            "are used until then"};
}

Finding durable_writes() {
  constexpr std::size_t kBytes = 64 << 20;
  constexpr std::size_t kPiece = 4 << 20;
  std::string path = "./.zero-doctor-XXXXXX";
  const FileDescriptor file(mkostemp(path.data(), O_CLOEXEC));
  if (file.get() < 0) {
    return {"disk", Health::kWarn, fmt::format("the current folder cannot be written: {}", std::strerror(errno)),
            "run from a folder you may write to, or set [run] dir to one"};
  }
  unlink(path.c_str());
  const std::vector<char> piece(kPiece, '\x5a');
  const auto begin = std::chrono::steady_clock::now();
  bool written = true;
  for (std::size_t at = 0; written && at < kBytes; at += kPiece) {
    written = write(file.get(), piece.data(), kPiece) == static_cast<ssize_t>(kPiece);
  }
  written = written && fsync(file.get()) == 0;
  const int error = errno;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!written)
    return {"disk", Health::kFail, fmt::format("64 MiB could not be written here: {}", std::strerror(error)),
            "free some space, or run from another folder"};
  const double rate = static_cast<double>(kBytes) / 1e6 / seconds;
  const bool slow = rate < 50;
  return {"disk", slow ? Health::kWarn : Health::kOk,
          fmt::format("{:.0f} MB/s written and synced in the current folder", rate),
          slow ? "runs will wait for their files; put [run] dir on a local disk" : ""};
}

}  // namespace

std::vector<Finding> check_storage() {
  return {io_uring(), durable_writes()};
}

}  // namespace zero::cli
