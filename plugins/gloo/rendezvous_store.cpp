#include "plugins/gloo/rendezvous_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zero/comm/rendezvous/tcp_sockets.h"

#include "plugins/gloo/any_time.h"
#include "plugins/gloo/store_server.h"

namespace zero_gloo {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kOneTry{2000};     // to connect to each address: a place may be that of a lost machine
constexpr milliseconds kGreeting{10000};  // after this time, the listener is taken for another program
constexpr int kHangUps = 20;              // tries at an agreed place, because a busy rank 0 also hangs up
constexpr const char* kEndedMeanwhile = "its process ended before this process could be taken back";
constexpr const char* kOtherPort = "\n  set MASTER_PORT to a free port, the same on all ranks";

struct Place {
  std::string address;
  int port = 0;
  std::string name;
  std::string secret;

  std::string text() const { return address + ":" + std::to_string(port); }
};

// Returns the name that the server also has. A name that was drawn for the run is never sent.
std::string open_name(const zero::LinkRequest& request) {
  return request.rendezvous_point == nullptr ? request.run_id : "";
}

Place place_of_rank_0(const zero::LinkRequest& request) {
  const char* loopback = request.one_host ? "127.0.0.1" : nullptr;  // the address at which rank 0 listens
  if (request.rendezvous_point == nullptr)
    return {loopback != nullptr ? loopback : request.address, request.port, open_name(request),
            rendezvous_secret(request.token, request.run_id)};
  zero::RendezvousPoint::Place place;
  zero::LinkFailure failure;
  if (!request.rendezvous_point->look_up(&place, &failure)) {
    throw StoreError(failure.reason, failure.rank, failure.configuration);
  }
  return {loopback != nullptr ? loopback : place.address, place.port, open_name(request),
          rendezvous_secret(request.token, place.name)};
}

milliseconds left_to_connect(Clock::time_point deadline) {
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
}

std::string reason_of(const Greeting& greeting, const Place& place) {
  switch (greeting.end) {
    case Greeting::End::kAnother:
      return "another run ('" + greeting.name + "') meets at " + place.text() + kOtherPort;
    case Greeting::End::kRefused:
      return "rank 0 at " + place.text() +
             " and this rank do not have the same token\n  set the same ZERO_TOKEN on every machine";
    case Greeting::End::kGone:
      return "the program that listens at " + place.text() + " closes the connection: it is not rank 0 of this run" +
             kOtherPort;
    default:
      return "the program that answers at " + place.text() + " is not rank 0 of this run" + kOtherPort;
  }
}

// If the place was agreed, an error is rank 0's or the user's mistake; a place that was looked up may be stale.
int reach_rank_0(const zero::LinkRequest& request, Clock::time_point deadline) {
  for (int hang_ups = 0;;) {
    const Place place = place_of_rank_0(request);
    std::string why;
    if (const int socket = connect_once(place.address, place.port, std::min(kOneTry, left_to_connect(deadline)), why);
        socket >= 0) {
      Greeting greeting;
      try {
        greeting = greet_server(socket, place.name, place.secret, std::min(kGreeting, left_to_connect(deadline)));
      } catch (...) {
        close(socket);
        throw;
      }
      if (greeting.end == Greeting::End::kIn) return socket;
      close(socket);
      why = reason_of(greeting, place);
      const bool again = greeting.end == Greeting::End::kGone && ++hang_ups < kHangUps;
      if (request.rendezvous_point == nullptr && !again) throw StoreError(why, 0, true);
    }
    if (Clock::now() > deadline) {
      const std::string within = place.text() + " within " + std::to_string(request.timeout_ms) + " ms (" + why + ")";
      // Rank 0 may have done its part, and ended.
      if (request.replacement > 0)
        throw StoreError("nobody answered at " + within + ": the run has ended, or rank 0 has not begun");
      throw StoreError("rank 0 did not answer at " + within, 0);
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
}

// Returns the error of a message that a rank was lost, or that the run has ended.
StoreError error_of(const Message& lost) {
  return {{lost.value.begin(), lost.value.end()}, rank_of_key(lost.key).value_or(-1)};
}

}  // namespace

std::unique_ptr<StoreServer> open_store(const zero::LinkRequest& request) {
  zero::RendezvousPoint* const point = request.rendezvous_point;
  StoreServerOptions options{.port = point == nullptr ? request.port : 0,
                             .one_host = request.one_host,
                             .name = open_name(request),
                             .secret = rendezvous_secret(request.token, request.run_id),
                             .num_clients = request.world,
                             .stays_open = request.most_replacements > 0,
                             .timeout = milliseconds(request.timeout_ms)};
  if (request.warn != nullptr) options.warn = [warn = request.warn](const std::string& line) { warn(line.c_str()); };
  auto server = std::make_unique<StoreServer>(std::move(options));
  zero::LinkFailure failure;
  if (point != nullptr && !point->announce(server->port(), &failure)) {
    server->abandon();
    throw StoreError(failure.reason, failure.rank, failure.configuration);
  }
  return server;
}

RendezvousStore::RendezvousStore(const zero::LinkRequest& request, milliseconds limit)
    : socket_(reach_rank_0(request, Clock::now() + limit)), limit_(limit), is_replacement_(request.replacement > 0) {
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (request.replacement == 0)
    write_message(socket_, {.operation = Operation::kHere, .key = std::to_string(request.rank), .value = {}});
}

// The client hangs up first, because the server of rank 0 waits for all clients.
RendezvousStore::~RendezvousStore() {
  if (socket_ >= 0) close(socket_);
}

void RendezvousStore::set(const std::string& key, const std::vector<char>& data) {
  write({.operation = Operation::kSet, .key = key, .value = data});
}

void RendezvousStore::come(const Replacement& replacement) {
  write({.operation = Operation::kCome, .key = replacement.text(), .value = {}});
}

void RendezvousStore::say_met() {
  write({.operation = Operation::kMet, .key = "", .value = {}});
}

StoreError RendezvousStore::await_end(const Replacement& replacement) {
  return await_end_of(replacement.text());
}

StoreError RendezvousStore::await_end() {
  return await_end_of("");
}

StoreError RendezvousStore::await_end_of(const std::string& set_by) {
  try {
    get("end", set_by, kAnyTime);  // nobody sets such a key
  } catch (const StoreError& error) {
    return error;
  }
  return StoreError(kLeft, 0);
}

void RendezvousStore::hang_up() {
  shutdown(socket_, SHUT_RDWR);
}

std::vector<char> RendezvousStore::get(const std::string& key, const std::string& set_by, milliseconds limit) {
  const Message question{.operation = Operation::kGet, .key = key, .value = {set_by.begin(), set_by.end()}};
  Message answer;
  write(question);
  switch (read_message(socket_, answer, limit)) {
    case Read::kDone:
      if (answer.operation == Operation::kRefusal) throw StoreError("its new process ended during the rendezvous");
      if (answer.operation == Operation::kLost) throw error_of(answer);
      return answer.value;
    case Read::kLate:
      throw StoreError("did not arrive within " + std::to_string(limit.count()) + " ms", rank_of_key(key).value_or(-1));
    case Read::kClosed:
      break;
  }
  throw StoreError(is_replacement_ ? kEndedMeanwhile : kLeft, 0);
}

// Rank 0 may have said why it hangs up.
void RendezvousStore::write(const Message& message) {
  if (write_message(socket_, message)) return;
  Message answer;
  const bool is_told = read_message(socket_, answer, milliseconds(0)) == Read::kDone;
  throw is_told && answer.operation == Operation::kLost ? error_of(answer)
                                                        : StoreError(is_replacement_ ? kEndedMeanwhile : kLeft, 0);
}

void RendezvousStore::wait(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) get(key);
}

void RendezvousStore::wait(const std::vector<std::string>& keys, const milliseconds&) {
  wait(keys);
}

std::string RendezvousStore::local_address() const {
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
