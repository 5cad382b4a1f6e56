#include "app/train/folder/run_lock.h"

#include <cerrno>
#include <cstring>
#include <span>
#include <thread>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "zero/base/error/error.h"
#include "zero/base/files/sha256.h"

namespace zero {

RunLock::RunLock(const std::filesystem::path& folder, std::chrono::milliseconds patience,
                 const std::function<void()>& pause) {
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(folder, ignored);
  const auto real = std::filesystem::weakly_canonical(absolute, ignored);
  const std::string path = (real.empty() ? absolute : real).string();
  const std::string name = "zero.cpp/run/" + sha256_hex(std::as_bytes(std::span(path)));
  socket_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket_.get() < 0) throw IoError(folder.string(), "make a socket to hold it by", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // after a zero byte, so no file is created
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    const int error = errno;
    if (error != EADDRINUSE) throw IoError(folder.string(), "hold it by a socket", error);
    if (std::chrono::steady_clock::now() >= deadline)
      throw ConfigError("run.dir", folder.string(), "another run uses it",
                        "wait until it ends, or name another folder with --run.dir");
    pause();
  }
}

void RunLock::pause_20_ms() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace zero
