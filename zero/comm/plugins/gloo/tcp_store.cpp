#include "tcp_store.h"

#include <cerrno>
#include <cstring>
#include <thread>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store_server.h"

namespace zero_gloo {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// One try on each address that the name has; -1 when none answers.
int try_connect(const std::string& address, int port, std::string& why) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list); error != 0) {
    why = gai_strerror(error);
    return -1;
  }
  int connected = -1;
  for (const addrinfo* info = list; info != nullptr && connected < 0; info = info->ai_next) {
    const int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    if (connect(fd, info->ai_addr, info->ai_addrlen) == 0) {
      connected = fd;
    } else {
      why = std::strerror(errno);
      close(fd);
    }
  }
  freeaddrinfo(list);
  return connected;
}

int connect_until(const std::string& address, int port, milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::string why;
  while (true) {
    if (const int fd = try_connect(address, port, why); fd >= 0) return fd;
    if (Clock::now() > deadline) {
      throw StoreError("rank 0 did not answer at " + address + ":" + std::to_string(port) + " within " +
                           std::to_string(timeout.count()) + " ms (" + why + ")",
                       0);
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
}

}  // namespace

TcpStore::TcpStore(const std::string& address, int port, const std::string& run_id, int rank, int world,
                   milliseconds timeout)
    : timeout_(timeout) {
  if (rank == 0) server_ = std::make_unique<StoreServer>(port, run_id, world, timeout);
  socket_ = connect_until(rank == 0 && address.empty() ? "127.0.0.1" : address, port, timeout);
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Message answer;
  if (!write_message(socket_, {.operation = Operation::kHello, .key = run_id}) ||
      read_message(socket_, answer, timeout) != Read::kDone || answer.operation != Operation::kHello) {
    close(socket_);
    throw StoreError("what answers at " + address + ":" + std::to_string(port) +
                         " is not rank 0 of this run\n  set MASTER_PORT to a free port, the same on all ranks",
                     0, true);
  }
  if (answer.key != run_id) {
    close(socket_);
    throw StoreError("another run ('" + answer.key + "') meets at " + address + ":" + std::to_string(port) +
                         "\n  set MASTER_PORT to a free port, the same on all ranks",
                     0, true);
  }
}

// The client hangs up first: the server of rank 0 waits for all of them.
TcpStore::~TcpStore() {
  if (socket_ >= 0) close(socket_);
}

void TcpStore::set(const std::string& key, const std::vector<char>& data) {
  if (!write_message(socket_, {.operation = Operation::kSet, .key = key, .value = data})) {
    throw StoreError("rank 0 left while the ranks met", 0);
  }
}

std::vector<char> TcpStore::get(const std::string& key) {
  // Keys are the numbers of ranks.
  const int rank = key.find_first_not_of("0123456789") == std::string::npos && key.size() < 9 ? std::stoi(key) : -1;
  Message answer;
  if (!write_message(socket_, {.operation = Operation::kGet, .key = key}))
    throw StoreError("rank 0 left while the ranks met", 0);
  switch (read_message(socket_, answer, timeout_)) {
    case Read::kDone:
      return answer.value;
    case Read::kLate:
      throw StoreError("did not arrive within " + std::to_string(timeout_.count()) + " ms", rank);
    case Read::kClosed:
      break;
  }
  throw StoreError("rank 0 left while the ranks met", 0);
}

void TcpStore::wait(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) get(key);
}

void TcpStore::wait(const std::vector<std::string>& keys, const milliseconds&) {
  wait(keys);
}

std::string TcpStore::local_address() const {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  char text[NI_MAXHOST] = {};
  if (getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &bytes) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
    throw StoreError(std::string("the local address: ") + std::strerror(errno));
  }
  // An IPv4 address on an IPv6 socket.
  const std::string name = text;
  return name.starts_with("::ffff:") ? name.substr(7) : name;
}

}  // namespace zero_gloo
