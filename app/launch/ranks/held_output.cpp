#include "app/launch/ranks/held_output.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace zero {
namespace {

// Returns no descriptor if the open is refused, if the stream has no reader, or if it is a socket.
FileDescriptor open_without_waiting(int stream) {
  struct stat info {};
  if (fstat(stream, &info) != 0 || !(S_ISFIFO(info.st_mode) || isatty(stream) != 0)) return {};
  const std::string path = fmt::format("/proc/self/fd/{}", stream);
  return FileDescriptor(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

// Returns as many whole lines as a pipe takes in one atomic write, or a part of a longer line.
std::string_view next_piece(std::string_view text) {
  const std::string_view piece = text.substr(0, PIPE_BUF);
  const std::size_t end = piece.rfind('\n');
  return end == std::string_view::npos ? piece : piece.substr(0, end + 1);
}

}  // namespace

void HeldOutput::write(std::string_view text) {
  const bool waited = waits();
  held_ += text;
  if (!waited) flush();
}

void HeldOutput::flush() {
  if (held_.empty()) return;
  if (!looked_at_) own_ = open_without_waiting(stream_);
  looked_at_ = true;
  std::string_view rest = held_;
  while (!rest.empty() && takes_now()) {
    const std::string_view piece = next_piece(rest);
    const ssize_t written = ::write(fd(), piece.data(), piece.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      reader_gone_ = reader_gone_ || errno == EPIPE;
      rest = {};  // no reader: the ranks continue
    }
  }
  held_.erase(0, held_.size() - rest.size());
}

// Returns whether a write of one piece would not block. That holds unless another process writes in between.
bool HeldOutput::takes_now() const {
  if (own_.get() >= 0) return true;
  pollfd ready{stream_, POLLOUT, 0};
  return poll(&ready, 1, 0) != 0;
}

}  // namespace zero
