#include "store_messages.h"

#include <cerrno>
#include <cstddef>

#include <poll.h>
#include <sys/socket.h>

namespace zero_gloo {
namespace {

using Clock = std::chrono::steady_clock;

struct Prefix {
  std::uint32_t operation, key_bytes, value_bytes;
};
constexpr std::uint32_t kMaxBytes = 1 << 20;

bool write_all(int socket, const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = send(socket, from, bytes, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    from += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

Read read_all(int socket, void* data, std::size_t bytes, Clock::time_point deadline) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd poll{.fd = socket, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&poll, 1, left > 0 ? static_cast<int>(left) : 0);
    if (ready == 0) return Read::kLate;
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t got = recv(socket, to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Read::kClosed;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return Read::kDone;
}

}  // namespace

bool write_message(int socket, const Message& message) {
  const Prefix prefix{static_cast<std::uint32_t>(message.operation), static_cast<std::uint32_t>(message.key.size()),
                      static_cast<std::uint32_t>(message.value.size())};
  return write_all(socket, &prefix, sizeof prefix) && write_all(socket, message.key.data(), message.key.size()) &&
         write_all(socket, message.value.data(), message.value.size());
}

Read read_message(int socket, Message& message, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  Prefix prefix{};
  if (const Read read = read_all(socket, &prefix, sizeof prefix, deadline); read != Read::kDone) return read;
  if (prefix.key_bytes > kMaxBytes || prefix.value_bytes > kMaxBytes) return Read::kClosed;
  message.operation = static_cast<Operation>(prefix.operation);
  message.key.resize(prefix.key_bytes);
  message.value.resize(prefix.value_bytes);
  if (const Read read = read_all(socket, message.key.data(), prefix.key_bytes, deadline); read != Read::kDone)
    return read;
  return read_all(socket, message.value.data(), prefix.value_bytes, deadline);
}

}  // namespace zero_gloo
