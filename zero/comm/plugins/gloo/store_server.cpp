#include "store_server.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace zero_gloo {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kMessage{2000};  // for the rest of a message that has begun

// IPv6 and IPv4 where there is IPv6, else IPv4 alone.
int listen_on(int port) {
  int error = 0;
  for (const int family : {AF_INET6, AF_INET}) {
    const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) continue;
    const int on = 1, off = 0;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<std::uint16_t>(port));
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<std::uint16_t>(port));
    if (family == AF_INET6) setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const bool bound = family == AF_INET6 ? bind(listener, reinterpret_cast<sockaddr*>(&six), sizeof six) == 0
                                          : bind(listener, reinterpret_cast<sockaddr*>(&four), sizeof four) == 0;
    if (bound && listen(listener, SOMAXCONN) == 0) return listener;
    error = errno;
    close(listener);
    if (error == EADDRINUSE) break;
  }
  throw StoreError("port " + std::to_string(port) + " of rank 0: " + std::strerror(error) +
                       "\n  set MASTER_PORT to a free port, the same on all ranks",
                   0, true);
}

}  // namespace

StoreServer::StoreServer(int port, std::string run_id, int num_clients, milliseconds timeout)
    : listener_(listen_on(port)), run_id_(std::move(run_id)), num_clients_(num_clients), timeout_(timeout) {
  thread_ = std::thread([this] { serve(); });
}

StoreServer::~StoreServer() {
  thread_.join();
  close(listener_);
  for (const Client& client : clients_) close(client.socket);
}

int StoreServer::port() const {
  sockaddr_in6 address{};  // the port is at the same place in both families
  socklen_t bytes = sizeof address;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &bytes);
  return ntohs(address.sin6_port);
}

void StoreServer::serve() {
  const auto deadline = Clock::now() + timeout_;
  while (num_finished_ < num_clients_ && Clock::now() < deadline && !abandoned_) {
    std::vector<pollfd> polls{{.fd = listener_, .events = POLLIN, .revents = 0}};
    for (const Client& client : clients_) polls.push_back({.fd = client.socket, .events = POLLIN, .revents = 0});
    if (poll(polls.data(), polls.size(), 100) <= 0) continue;
    for (std::size_t i = clients_.size(); i-- > 0;) {
      if (polls[i + 1].revents == 0 || serve_client(clients_[i])) continue;
      num_finished_ += clients_[i].greeted;
      close(clients_[i].socket);
      clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (polls[0].revents != 0) accept_client();
    answer_waiting();
  }
}

void StoreServer::accept_client() {
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket >= 0) clients_.push_back({.socket = socket});
}

bool StoreServer::serve_client(Client& client) {
  Message message;
  if (read_message(client.socket, message, kMessage) != Read::kDone) return false;
  switch (message.operation) {
    case Operation::kHello:
      client.greeted = message.key == run_id_;
      return write_message(client.socket, {.operation = Operation::kHello, .key = run_id_}) && client.greeted;
    case Operation::kSet:
      if (client.greeted) values_[message.key] = std::move(message.value);
      return client.greeted;
    case Operation::kGet:
      client.waits_for = std::move(message.key);
      return client.greeted;
  }
  return false;
}

void StoreServer::answer_waiting() {
  for (Client& client : clients_) {
    const auto value = client.waits_for.empty() ? values_.end() : values_.find(client.waits_for);
    if (value == values_.end()) continue;
    // A client that is gone is noticed by the next poll.
    write_message(client.socket, {.operation = Operation::kGet, .key = client.waits_for, .value = value->second});
    client.waits_for.clear();
  }
}

}  // namespace zero_gloo
