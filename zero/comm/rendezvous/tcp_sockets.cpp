#include "zero/comm/rendezvous/tcp_sockets.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace zero::meeting {
namespace {

int try_to_listen(int family, int port, bool one_host) {
  const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return -1;
  const int on = 1, off = 0;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(static_cast<std::uint16_t>(port));
  if (one_host) four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (family == AF_INET6) setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const bool bound = family == AF_INET6 ? bind(listener, reinterpret_cast<sockaddr*>(&six), sizeof six) == 0
                                        : bind(listener, reinterpret_cast<sockaddr*>(&four), sizeof four) == 0;
  if (bound && listen(listener, SOMAXCONN) == 0) return listener;
  const int error = errno;
  close(listener);
  errno = error;
  return -1;
}

std::string address_of(const sockaddr_storage& address, socklen_t bytes) {
  char text[NI_MAXHOST] = {};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) !=
      0) {
    return "an unknown address";
  }
  const std::string name = text;
  return name.starts_with("::ffff:") ? name.substr(7) : name;  // an IPv4 address on an IPv6 socket
}

}  // namespace

int listen_at(int port, bool one_host) {
  const int listener = one_host ? -1 : try_to_listen(AF_INET6, port, false);
  if (listener >= 0 || (!one_host && errno == EADDRINUSE)) return listener;
  return try_to_listen(AF_INET, port, one_host);
}

int accept_one(int listener, std::string& address) {
  sockaddr_storage from{};
  socklen_t bytes = sizeof from;
  const int socket = accept4(listener, reinterpret_cast<sockaddr*>(&from), &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket >= 0) address = address_of(from, bytes);
  return socket;
}

int connect_once(const std::string& name, int port, std::chrono::milliseconds limit, std::string& why) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &list); error != 0) {
    why = gai_strerror(error);
    return -1;
  }
  int connected = -1;
  for (const addrinfo* info = list; info != nullptr && connected < 0; info = info->ai_next) {
    const int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    // connect() gives up after this time.
    const timeval time{.tv_sec = limit.count() / 1000, .tv_usec = limit.count() % 1000 * 1000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    if (connect(fd, info->ai_addr, info->ai_addrlen) == 0) {
      connected = fd;
    } else {
      why = std::strerror(errno == EINPROGRESS ? ETIMEDOUT : errno);
      close(fd);
    }
  }
  freeaddrinfo(list);
  return connected;
}

}  // namespace zero::meeting
