#include "plugins/gloo/store_server.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <utility>

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zero/comm/rendezvous/tcp_sockets.h"

namespace zero_gloo {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::ptrdiff_t kMostUnproved = 256;  // clients without a proof at a time; beyond that, the oldest is dropped
constexpr int kMostWarnings = 10;
constexpr std::size_t kMostUnsent = std::size_t{4} << 20;
constexpr milliseconds kLongestPoll{100};
constexpr const char* kOver = "the run ended before this process could be taken back";

int listen_on(int port, bool one_host) {
  if (const int listener = listen_at(port, one_host); listener >= 0) return listener;
  throw StoreError("port " + std::to_string(port) + " of rank 0: " + std::strerror(errno) +
                       "\n  set MASTER_PORT to a free port, the same on all ranks",
                   0, true);
}

}  // namespace

std::optional<Replacement> Replacement::parse(const std::string& text) {
  Replacement replacement;
  const char* const end = text.data() + text.size();
  const auto rank = std::from_chars(text.data(), end, replacement.rank);
  if (rank.ec != std::errc() || rank.ptr == end || *rank.ptr != '/') return std::nullopt;
  const auto number = std::from_chars(rank.ptr + 1, end, replacement.number);
  if (number.ec != std::errc() || number.ptr != end || replacement.rank < 0 || replacement.number < 1)
    return std::nullopt;
  return replacement;
}

std::optional<int> rank_of_key(const std::string& key) {
  int rank = 0;
  const char* const end = key.data() + key.size();
  const auto parsed = std::from_chars(key.data(), end, rank);
  return parsed.ec == std::errc() && parsed.ptr == end && rank >= 0 ? std::optional(rank) : std::nullopt;
}

StoreServer::StoreServer(StoreServerOptions options)
    : options_(std::move(options)),
      deadline_(Clock::now() + options_.timeout),
      listener_(listen_on(options_.port, options_.one_host)),
      waker_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  options_.name.resize(std::min(options_.name.size(), kMostNameBytes));
  thread_ = std::thread([this] { serve(); });
}

StoreServer::~StoreServer() {
  closing_ = true;
  wake();
  thread_.join();
  close(listener_);
  if (waker_ >= 0) close(waker_);
  for (const Client& client : clients_) close(client.socket);
}

int StoreServer::port() const {
  sockaddr_in6 address{};  // the port is at the same place in both families
  socklen_t bytes = sizeof address;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &bytes);
  return ntohs(address.sin6_port);
}

void StoreServer::wake() {
  const std::uint64_t one = 1;
  if (waker_ >= 0) (void)!write(waker_, &one, sizeof one);  // without it, the thread looks ten times a second
}

void StoreServer::abandon() {
  abandoned_ = true;
  wake();
}

std::optional<Replacement> StoreServer::replacement(int rank) {
  const std::scoped_lock lock(mutex_);
  std::optional<Replacement> newest;
  for (const Client& client : clients_)
    if (client.replacement && client.replacement->rank == rank &&
        (!newest || newest->number < client.replacement->number))
      newest = client.replacement;
  return newest;
}

void StoreServer::set(const std::string& key, std::vector<char> value) {
  {
    const std::scoped_lock lock(mutex_);
    values_[key] = std::move(value);
  }
  wake();
}

bool StoreServer::is_here(const std::string& replacement) const {
  return std::ranges::any_of(
      clients_, [&](const Client& client) { return client.replacement && client.replacement->text() == replacement; });
}

// Called by the server's thread.
bool StoreServer::goes_on() const {
  if (abandoned_) return false;
  if (lost_) return !closing_;
  return (options_.stays_open && !closing_) || (num_finished_ < options_.num_clients && Clock::now() < deadline_);
}

void StoreServer::serve() {
  std::unique_lock lock(mutex_);
  while (goes_on() && serve_events(lock, kLongestPoll)) continue;
  if (!options_.stays_open || lost_ || num_finished_ < options_.num_clients) return;
  // A replacement may just have connected, or be in the middle of its handshake.
  is_over_ = true;
  const auto end = Clock::now() + options_.handshake_limit;
  for (milliseconds limit{0}; serve_events(lock, limit) && has_strangers() && Clock::now() < end; limit = kLongestPoll)
    continue;
}

// Waits for events at most `limit`, and serves them. Returns false if the system cannot report events.
bool StoreServer::serve_events(std::unique_lock<std::mutex>& lock, milliseconds limit) {
  std::vector<pollfd> polls{{.fd = listener_, .events = POLLIN, .revents = 0},
                            {.fd = waker_, .events = POLLIN, .revents = 0}};
  for (const Client& client : clients_) {
    const bool waits = !client.unsent.empty();
    polls.push_back({.fd = client.socket, .events = static_cast<short>(POLLIN | (waits ? POLLOUT : 0)), .revents = 0});
  }
  lock.unlock();
  const bool broken = poll(polls.data(), polls.size(), static_cast<int>(limit.count())) < 0 && errno != EINTR;
  lock.lock();
  if (broken) return false;
  std::uint64_t woken = 0;
  if (polls[1].revents != 0) (void)!read(waker_, &woken, sizeof woken);
  const auto now = Clock::now();
  for (std::size_t i = clients_.size(); i-- > 0;) {
    Client& client = clients_[i];
    const bool late = !client.session.proved() && now > client.until;
    if (late || (polls[i + 2].revents != 0 && !(send_unsent(client) && serve_client(client)))) drop(i);
  }
  if (polls[0].revents != 0) accept_clients();
  if (lost_) {
    send_lost();
  } else if (is_over_) {
    send_over();
  } else {
    answer_waiting();
  }
  return true;
}

// Returns true if a client may be a replacement that has not said so yet.
bool StoreServer::has_strangers() const {
  return std::ranges::any_of(clients_, [](const Client& client) { return !client.rank && !client.replacement; });
}

// Tells replacements that nobody takes them back, as the answer to their next question.
void StoreServer::send_over() {
  for (Client& client : clients_)
    if (client.replacement) send_end(client, /*culprit=*/"", kOver);
}

// Tells all present and later clients that a rank was lost, as the answer to their next question.
void StoreServer::send_lost() {
  for (Client& client : clients_)
    if (client.session.proved()) send_end(client, std::to_string(lost_->rank), lost_->what());
}

void StoreServer::send_end(Client& client, const std::string& culprit, const std::string& reason) {
  if (std::exchange(client.told, true)) return;
  const auto bytes = to_bytes({.operation = Operation::kLost, .key = culprit, .value = {reason.begin(), reason.end()}});
  client.unsent.insert(client.unsent.end(), bytes.begin(), bytes.end());
  send_unsent(client);
}

void StoreServer::end_meeting(int rank, const std::string& reason) {
  if (!lost_) lost_.emplace(reason, rank);
}

void StoreServer::drop(std::size_t client) {
  const Client& gone = clients_[client];
  if (gone.rank && !gone.has_met && num_finished_ < options_.num_clients)
    end_meeting(*gone.rank, "its process ended or left while the ranks met");
  num_finished_ += gone.session.proved() ? 1 : 0;
  close(clients_[client].socket);
  clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(client));
}

void StoreServer::accept_clients() {
  for (int i = 0; i < 64; ++i) {
    std::string address;
    const int socket = accept_one(listener_, address);
    const auto is_unproved = [](const Client& client) { return !client.session.proved(); };
    const bool full =
        socket < 0 ? errno == EMFILE || errno == ENFILE : std::ranges::count_if(clients_, is_unproved) >= kMostUnproved;
    if (const auto oldest = std::ranges::find_if(clients_, is_unproved); full && oldest != clients_.end())
      drop(static_cast<std::size_t>(oldest - clients_.begin()));
    if (socket < 0) return;
    Client client;
    client.socket = socket;
    client.address = std::move(address);
    client.until = Clock::now() + options_.handshake_limit;
    clients_.push_back(std::move(client));
  }
}

// Serves everything that has arrived from the client.
bool StoreServer::serve_client(Client& client) try {
  while (true) {
    Message message;
    const Read read = client.reader.read(client.socket, message, client.session.caps());
    if (read != Read::kDone) return read == Read::kLate;
    if (!answer(client, std::move(message))) return false;
  }
} catch (const StoreError& error) {
  warn("a connection from " + client.address + " is dropped: " + error.what());
  return false;
}

bool StoreServer::answer(Client& client, Message message) {
  if (!client.session.proved()) return greet(client, message);
  switch (message.operation) {
    case Operation::kSet:
      values_[message.key] = std::move(message.value);
      return true;
    case Operation::kHere:
      client.rank = rank_of_key(message.key);
      return client.rank.has_value();
    case Operation::kMet:
      client.has_met = true;
      return true;
    case Operation::kGet:
      client.waits_for = std::move(message.key);
      client.set_by.assign(message.value.begin(), message.value.end());
      return true;
    case Operation::kCome:
      client.replacement = options_.stays_open ? Replacement::parse(message.key) : std::nullopt;
      if (client.replacement && num_finished_ < options_.num_clients)
        end_meeting(client.replacement->rank, "its process ended while the ranks met, and a new process has arrived");
      return client.replacement.has_value();
    default:
      return false;
  }
}

bool StoreServer::greet(Client& client, const Message& message) {
  StoreSession::Answer answer = client.session.take(message, options_.name, options_.secret);
  if (!answer.refusal.empty()) warn("a connection from " + client.address + " was refused: " + answer.refusal);
  client.unsent = std::move(answer.bytes);
  return send_unsent(client) && answer.goes_on;
}

void StoreServer::warn(const std::string& line) {
  if (!options_.warn || num_warnings_ > kMostWarnings) return;
  options_.warn(++num_warnings_ > kMostWarnings ? "more connections are refused; they are not printed" : line);
}

bool StoreServer::send_unsent(Client& client) {
  while (!client.unsent.empty()) {
    const ssize_t sent = send(client.socket, client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (sent <= 0) return false;
    client.unsent.erase(client.unsent.begin(), client.unsent.begin() + sent);
  }
  return true;
}

void StoreServer::answer_waiting() {
  for (Client& client : clients_) {
    if (client.waits_for.empty() || client.unsent.size() > kMostUnsent) continue;
    const auto value = values_.find(client.waits_for);
    const bool in_vain = value == values_.end() && !client.set_by.empty() && !is_here(client.set_by);
    if (value == values_.end() && !in_vain) continue;
    const auto bytes = to_bytes({.operation = in_vain ? Operation::kRefusal : Operation::kGet,
                                 .key = client.waits_for,
                                 .value = in_vain ? std::vector<char>() : value->second});
    client.unsent.insert(client.unsent.end(), bytes.begin(), bytes.end());
    client.waits_for.clear();
    send_unsent(client);  // the next poll notices a client that is gone
  }
}

}  // namespace zero_gloo
