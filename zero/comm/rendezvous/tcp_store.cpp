#include "zero/comm/rendezvous/tcp_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kStoreMagic = 0x3C85F7CE;
enum class StoreCommand : char { kValidate = 0, kSet = 1, kGet = 3, kWait = 6 };
constexpr char kStopWaiting = 0;

constexpr std::size_t kMaxKeyBytes = 4 << 10;
constexpr std::size_t kMaxValueBytes = 1 << 20;

class Request {
 public:
  explicit Request(StoreCommand command) : bytes_(1, static_cast<char>(command)) {}

  template <class Number>
  Request& number(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Request& text(std::string_view value) {
    number(std::uint64_t{value.size()});
    bytes_ += value;
    return *this;
  }
  Request& key(std::string_view key) { return text(fmt::format("/{}", key)); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// connect() gives up after SO_SNDTIMEO.
void limit_sends(int socket, milliseconds limit) {
  const timeval time{.tv_sec = limit.count() / 1000, .tv_usec = limit.count() % 1000 * 1000};
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

}  // namespace

TcpStore::TcpStore(const std::string& host, int port, milliseconds timeout)
    : name_(fmt::format("store at {}:{}", host, port)), timeout_(std::max(timeout, milliseconds(1))) {
  connect(host, port);
  send(Request(StoreCommand::kValidate).number(kStoreMagic).bytes());
}

void TcpStore::set(std::string_view key, std::string_view value) {
  check(key);
  if (value.size() > kMaxValueBytes) fail(fmt::format("the value of '{}' has more than 1 MiB", key));
  send(Request(StoreCommand::kSet).key(key).text(value).bytes());
}

// The server answers get at once, with nothing for a key that nobody has set. So wait is sent first.
std::string TcpStore::get(std::string_view key) {
  check(key);
  const auto deadline = Clock::now() + timeout_;
  const std::string command = fmt::format("get of '{}'", key);
  send(Request(StoreCommand::kWait).number(std::uint64_t{1}).key(key).bytes());
  char stopped = kStopWaiting;
  receive({&stopped, 1}, deadline, command);
  if (stopped != kStopWaiting) fail(fmt::format("answers wait with {}: it is not a TCPStore", int{stopped}));

  send(Request(StoreCommand::kGet).key(key).bytes());
  std::array<char, sizeof(std::uint64_t)> number{};
  receive(number, deadline, command);
  const auto bytes = std::bit_cast<std::uint64_t>(number);
  if (bytes > kMaxValueBytes) fail(fmt::format("answers get with {} bytes: it is not a TCPStore", bytes));
  std::string value(bytes, '\0');
  receive(value, deadline, command);
  return value;
}

std::string TcpStore::local_address() const {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  std::array<char, NI_MAXHOST> text{};
  if (getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) !=
          0) {
    fail("this process's own address is not known");
  }
  return text.data();
}

void TcpStore::connect(const std::string& host, int port) {
  const addrinfo hints{.ai_socktype = SOCK_STREAM};
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list); error != 0) {
    fail(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(list, &freeaddrinfo);
  const auto deadline = Clock::now() + timeout_;
  int error = 0;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    FileDescriptor fd(socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    limit_sends(fd.get(), std::max(left, milliseconds(1)));
    if (fd.get() < 0 || ::connect(fd.get(), info->ai_addr, info->ai_addrlen) != 0) {
      error = errno == EINPROGRESS ? ETIMEDOUT : errno;
      continue;
    }
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    limit_sends(fd.get(), timeout_);
    socket_ = std::move(fd);
    return;
  }
  fail(std::strerror(error));
}

void TcpStore::check(std::string_view key) const {
  if (key.size() > kMaxKeyBytes) fail("a key of more than 4 KiB");
}

void TcpStore::send(std::string_view request) {
  while (!request.empty()) {
    const ssize_t sent = ::send(socket_.get(), request.data(), request.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) fail(fmt::format("takes no request within {} ms", timeout_.count()));
    if (sent <= 0) fail("closed the connection");
    request.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void TcpStore::receive(std::span<char> answer, Clock::time_point deadline, std::string_view command) {
  while (!answer.empty()) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    pollfd poll{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&poll, 1, static_cast<int>(std::clamp<long>(left.count(), 0, 60'000)));
    if (ready == 0 && Clock::now() < deadline) continue;
    if (ready == 0) fail(fmt::format("no answer to {} within {} ms", command, timeout_.count()));
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t got = recv(socket_.get(), answer.data(), answer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("closed the connection");
    answer = answer.subspan(static_cast<std::size_t>(got));
  }
}

void TcpStore::fail(std::string_view reason) const {
  throw CommError(-1, name_, reason);
}

}  // namespace zero
