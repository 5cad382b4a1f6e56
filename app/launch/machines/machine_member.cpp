#include "app/launch/machines/machine_member.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include "zero/base/error/error.h"
#include "zero/comm/rendezvous/handshake.h"
#include "zero/comm/rendezvous/tcp_sockets.h"

namespace zero {
namespace {

using Says = MachineMessage::Kind;
using std::chrono::milliseconds;

constexpr milliseconds kOneTry{2000};       // to connect, and as long again to greet
constexpr milliseconds kBetweenTries{100};  // machine 0 may be started later

// Waits until a signal tells this launcher to stop, until `fd` is readable, or until `limit`. Returns the signal; 0:
// none.
int await_signal_or(SignalInbox& inbox, int fd, milliseconds limit) {
  pollfd fds[] = {{inbox.fd(), POLLIN, 0}, {fd, POLLIN, 0}};
  poll(fds, fd >= 0 ? 2 : 1, static_cast<int>(limit.count()));
  while (const int signal = inbox.take())
    if (signal != SIGUSR1) return signal;
  return 0;
}

std::string why_not(const meeting::Greeting& greeting) {
  switch (greeting.end) {
    case meeting::Greeting::End::kAnother:
      return fmt::format("another run ('{}') meets there; give another --master-port to every machine", greeting.name);
    case meeting::Greeting::End::kRefused:
      return "it does not have this launcher's token: set the same ZERO_TOKEN on every machine";
    case meeting::Greeting::End::kGone:
      return "the program that listens there closes the connection";
    default:
      return "the program that listens there is not a launcher";
  }
}

}  // namespace

MachineMember::MachineMember(MachineMeeting meeting, const LaunchOptions& options)
    : meeting_(std::move(meeting)), machine_(options.node_rank), patience_(options.patience) {}

bool MachineMember::connect(std::string& why) try {
  FileDescriptor socket(meeting::connect_once(meeting_.address, meeting_.port, kOneTry, why));
  if (socket.get() < 0) return false;
  const meeting::Greeting greeting = meeting::greet_server(socket.get(), meeting_.name, meeting_.secret, kOneTry);
  if (greeting.end != meeting::Greeting::End::kIn) {
    why = why_not(greeting);
    return false;
  }
  watch_connection(socket.get());
  socket_ = std::move(socket);
  reader_ = {};
  lost_.clear();
  say({.kind = Says::kJoin, .machine = machine_, .text = meeting_.options});
  why = lost_;
  return lost_.empty();
} catch (const meeting::StoreError& error) {
  why = error.what();
  return false;
}

MachineMember::Turn MachineMember::await_begin(SignalInbox& inbox) {
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  for (std::string why; socket_.get() < 0 && !connect(why);) {
    if (const int signal = await_signal_or(inbox, -1, kBetweenTries); signal != 0) return {.signal = signal};
    if (std::chrono::steady_clock::now() >= deadline)
      return {.lost = fmt::format("machine 0: no answer of its launcher at {}:{} within {} s: {}", meeting_.address,
                                  meeting_.port, patience_.count() / 1000, why)};
  }
  while (true) {
    while (const std::optional<MachineMessage> message = read()) {
      if (message->kind == Says::kRefused)
        throw ConfigError("--node-rank", std::to_string(machine_),
                          fmt::format("the launcher of machine 0 refuses it: {}", message->text),
                          "give all machines the same options, and each a --node-rank of its own");
      if (message->kind == Says::kWait) fmt::print(stderr, "zero launch: {}\n", message->text);
      if (message->kind == Says::kBegin) generation_ = message->generation;
      const bool ends = message->kind == Says::kOver && message->status != MachineMessage::kAllAgain;
      if (ends || message->kind == Says::kBegin) return {.message = message};
    }
    if (!lost_.empty()) return {.lost = lost_};
    if (const int signal = await_signal_or(inbox, socket_.get(), milliseconds(60'000)); signal != 0)
      return {.signal = signal};
  }
}

std::vector<MachineMessage> MachineMember::hear() {
  std::vector<MachineMessage> heard;
  while (std::optional<MachineMessage> message = read())
    if (message->generation == generation_) heard.push_back(std::move(*message));
  return heard;
}

std::optional<MachineMessage> MachineMember::read() {
  if (socket_.get() < 0) return std::nullopt;
  meeting::Message message;
  switch (reader_.read(socket_.get(), message, meeting::kAfterProof)) {
    case meeting::Read::kLate:
      return std::nullopt;
    case meeting::Read::kClosed:
      hang_up("is gone");
      return std::nullopt;
    case meeting::Read::kDone:
      break;
  }
  std::optional<MachineMessage> said = to_machine_message(message);
  if (!said) hang_up("speaks another version of zero.cpp");
  return said;
}

void MachineMember::say(MachineMessage message) {
  if (socket_.get() < 0) return;
  message.generation = generation_;
  if (!meeting::write_message(socket_.get(), to_message(message))) hang_up("is gone");
}

void MachineMember::give_up(milliseconds waited) {
  hang_up(fmt::format("did not answer within {} s", waited.count() / 1000));
}

void MachineMember::hang_up(const std::string& why) {
  socket_ = {};
  lost_ = fmt::format("machine 0: its launcher at {}:{} {}", meeting_.address, meeting_.port, why);
}

}  // namespace zero
