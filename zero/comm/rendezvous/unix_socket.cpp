#include "zero/comm/rendezvous/unix_socket.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

struct Address {
  sockaddr_un value{};
  socklen_t bytes = 0;
};

// A leading zero byte makes the name abstract.
Address abstract(std::string_view name) {
  Address address;
  ZERO_CHECK(name.size() < sizeof address.value.sun_path, "a socket name of {} bytes", name.size());
  address.value.sun_family = AF_UNIX;
  std::memcpy(address.value.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

UnixSocket open_socket() {
  UnixSocket socket(FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)));
  if (socket.get() < 0) throw IoError("unix socket", "socket", errno);
  return socket;
}

// Returns true if an event occurred before `limit`.
bool wait_for(int fd, short events, std::chrono::milliseconds limit) {
  pollfd poll{.fd = fd, .events = events, .revents = 0};
  const int result = ::poll(&poll, 1, static_cast<int>(limit.count()));
  if (result < 0 && errno != EINTR) throw IoError("unix socket", "poll", errno);
  return result > 0;
}

bool gone(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

}  // namespace

std::optional<UnixSocket> UnixSocket::listen(std::string_view name) {
  UnixSocket socket = open_socket();
  const Address address = abstract(name);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.value), address.bytes) != 0) {
    if (errno == EADDRINUSE) return std::nullopt;
    throw IoError(fmt::format("@{}", name), "bind", errno);
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) throw IoError(fmt::format("@{}", name), "listen", errno);
  return socket;
}

std::optional<UnixSocket> UnixSocket::connect(std::string_view name) {
  UnixSocket socket = open_socket();
  const Address address = abstract(name);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.value), address.bytes) == 0) return socket;
  if (errno == ECONNREFUSED || errno == ENOENT || errno == EAGAIN || errno == EINTR) return std::nullopt;
  throw IoError(fmt::format("@{}", name), "connect", errno);
}

std::pair<UnixSocket, UnixSocket> UnixSocket::pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw IoError("unix socket", "socketpair", errno);
  return {UnixSocket(FileDescriptor(ends[0])), UnixSocket(FileDescriptor(ends[1]))};
}

std::optional<UnixSocket> UnixSocket::accept(std::chrono::milliseconds limit) {
  if (!wait_for(get(), POLLIN, limit)) return std::nullopt;
  FileDescriptor fd(::accept4(get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (fd.get() >= 0) return UnixSocket(std::move(fd));
  if (errno == ECONNABORTED || errno == EINTR || errno == EAGAIN) return std::nullopt;
  throw IoError("unix socket", "accept", errno);
}

UnixSocket::Result UnixSocket::send(const void* record, std::size_t bytes, int fd, std::chrono::milliseconds limit) {
  iovec part{.iov_base = const_cast<void*>(record), .iov_len = bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (sendmsg(get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (gone(errno)) return Result::kGone;
    // ETOOMANYREFS: this user has as many descriptors in flight as the system allows, until receivers take some.
    const bool crowded = errno == ETOOMANYREFS;
    if (errno != EAGAIN && errno != EINTR && !crowded) throw IoError("unix socket", "sendmsg", errno);
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Result::kWouldBlock;
    if (crowded) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      wait_for(get(), POLLOUT, left);
    }
  }
  return Result::kDone;
}

UnixSocket::Result UnixSocket::receive(void* record, std::size_t bytes, FileDescriptor* fd,
                                       std::chrono::milliseconds limit) {
  if (!wait_for(get(), POLLIN, limit)) return Result::kWouldBlock;
  iovec part{.iov_base = record, .iov_len = bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int));  // the padding of CMSG_SPACE would hold a second descriptor
  ssize_t got = recvmsg(get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  // Reported once, before records that the peer sent before it ended.
  if (got < 0 && errno == ECONNRESET) got = recvmsg(get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Result::kWouldBlock;
  if (got < 0 && gone(errno)) return Result::kGone;
  if (got < 0) throw IoError("unix socket", "recvmsg", errno);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(header), sizeof received);
    FileDescriptor owned(received);
    if (fd != nullptr) *fd = std::move(owned);
  }
  if (got == 0) return Result::kGone;  // or a record without bytes, which zero.cpp never sends
  if (got != static_cast<ssize_t>(bytes) || (message.msg_flags & MSG_TRUNC) != 0) {
    throw IoError("unix socket", fmt::format("receive {} bytes", bytes), 0,
                  fmt::format("a record of {} bytes came", got));
  }
  return Result::kDone;
}

uid_t UnixSocket::peer_user() const {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
    throw IoError("unix socket", "SO_PEERCRED", errno);
  return peer.uid;
}

}  // namespace zero
