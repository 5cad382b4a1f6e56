#include "app/launch/machines/machine_leader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>

#include "zero/base/error/error.h"
#include "zero/base/error/exit_status.h"
#include "zero/comm/rendezvous/tcp_sockets.h"

namespace zero {
namespace {

using Says = MachineMessage::Kind;

constexpr std::chrono::seconds kIntroduction{10};
constexpr std::ptrdiff_t kMostUnknown = 256;  // most unknown connections; one more drops the oldest
constexpr int kMostRefusalsPrinted = 10;

bool send_now(int socket, std::span<const char> bytes) {
  // Messages are small. If the buffer has no room for a message, the client does not read.
  return send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == std::ssize(bytes);
}

}  // namespace

MachineLeader::MachineLeader(MachineMeeting meeting, int machines)
    : meeting_(std::move(meeting)), machines_(machines), listener_(meeting::listen_at(meeting_.port, false)) {
  if (listener_.get() < 0)
    throw ConfigError("--master-port", std::to_string(meeting_.port - 1),
                      fmt::format("with --spared-from the launchers meet at the next port, {}: {}", meeting_.port,
                                  std::strerror(errno)),
                      "give another port to every machine");
}

void MachineLeader::begin(int generation, int left) {
  goes_on_ = true;
  generation_ = generation;
  left_ = left;
  began_.clear();
  dropped_.clear();
  for (Client& client : clients_)
    if (client.machine >= 0) begin_on(client);
  drop_gone();
}

void MachineLeader::begin_on(Client& client) {
  if (!began_.insert(client.machine).second) {
    client.gone = !send_to(
        client,
        {.kind = Says::kWait,
         .text =
             "the other launchers are in an attempt that began without this launcher: it waits for the next attempt"});
    return;
  }
  client.takes_part = true;
  client.gone = !send_to(client, {.kind = Says::kBegin, .left = left_});
}

std::vector<pollfd> MachineLeader::watched() const {
  std::vector<pollfd> out{{listener_.get(), POLLIN, 0}};
  for (const Client& client : clients_) out.push_back({client.socket.get(), POLLIN, 0});
  return out;
}

std::optional<std::chrono::steady_clock::time_point> MachineLeader::due() const {
  std::optional<Clock::time_point> first;
  for (const Client& client : clients_)
    if (client.machine < 0 && (!first || client.until < *first)) first = client.until;
  return first;
}

std::vector<MachineMessage> MachineLeader::hear() {
  std::vector<MachineMessage> heard;
  accept_clients();
  for (Client& client : clients_) {
    serve(client, heard);
    if (client.machine < 0 && Clock::now() > client.until) client.gone = true;
  }
  drop_gone();
  std::ranges::move(std::exchange(dropped_, {}), std::back_inserter(heard));
  return heard;
}

std::string MachineLeader::news() {
  return std::exchange(news_, {});
}

void MachineLeader::accept_clients() {
  while (true) {
    std::string address;
    FileDescriptor socket(meeting::accept_one(listener_.get(), address));
    if (socket.get() < 0) return;
    const auto is_unknown = [](const Client& client) { return client.machine < 0; };
    if (std::ranges::count_if(clients_, is_unknown) >= kMostUnknown)
      clients_.erase(std::ranges::find_if(clients_, is_unknown));
    watch_connection(socket.get());
    Client client;
    client.socket = std::move(socket);
    client.address = std::move(address);
    client.until = Clock::now() + kIntroduction;
    clients_.push_back(std::move(client));
  }
}

// Takes all messages that the client has sent.
void MachineLeader::serve(Client& client, std::vector<MachineMessage>& heard) try {
  while (!client.gone) {
    meeting::Message message;
    const meeting::Read read = client.reader.read(client.socket.get(), message, client.session.caps());
    if (read == meeting::Read::kLate) return;
    client.gone = read == meeting::Read::kClosed || !take(client, message, heard);
  }
} catch (const meeting::StoreError&) {
  client.gone = true;  // without random bytes or HMAC, no proof is possible
}

bool MachineLeader::take(Client& client, const meeting::Message& message, std::vector<MachineMessage>& heard) {
  if (!client.session.proved()) return greet(client, message);
  std::optional<MachineMessage> said = to_machine_message(message);
  if (!said) return false;
  if (client.machine < 0) return said->kind == Says::kJoin && join(client, *said);
  said->machine = client.machine;
  const bool of_now = client.takes_part && said->generation == generation_;
  switch (said->kind) {
    case Says::kEnded:
      if (of_now) client.takes_part = false;
      [[fallthrough]];
    case Says::kLost:
    case Says::kAlive:
    case Says::kFailed:
      if (of_now && goes_on_) heard.push_back(std::move(*said));
      return true;
    default:
      return false;
  }
}

bool MachineLeader::greet(Client& client, const meeting::Message& message) {
  const meeting::StoreSession::Answer answer = client.session.take(message, meeting_.name, meeting_.secret);
  if (!answer.refusal.empty() && num_refused_ <= kMostRefusalsPrinted)
    news_ += ++num_refused_ > kMostRefusalsPrinted
                 ? "zero launch: more connections are refused; they are not printed\n"
                 : fmt::format("zero launch: a launcher at {} was refused: {}\n", client.address, answer.refusal);
  return (answer.bytes.empty() || send_now(client.socket.get(), answer.bytes)) && answer.goes_on;
}

bool MachineLeader::join(Client& client, const MachineMessage& message) {
  const auto refuse = [&](const std::string& why) {
    send_to(client, {.kind = Says::kRefused, .text = why});
    return false;
  };
  if (message.text != meeting_.options)
    return refuse(fmt::format("machine 0 was started with {}, this one with {}", meeting_.options, message.text));
  const int machine = message.machine;
  if (machine < 1 || machine >= machines_) return refuse(fmt::format("there is no machine {}", machine));
  const auto other = std::ranges::find(clients_, machine, &Client::machine);
  if (other != clients_.end() && !other->gone)
    return refuse(fmt::format("the launcher at {} is machine {} already", other->address, machine));
  client.machine = machine;
  if (goes_on_) begin_on(client);
  return !client.gone;
}

bool MachineLeader::send_to(Client& client, MachineMessage message) {
  message.generation = generation_;
  return send_now(client.socket.get(), meeting::to_bytes(to_message(message)));
}

void MachineLeader::say(int machine, MachineMessage message) {
  const auto client = std::ranges::find(clients_, machine, &Client::machine);
  if (client != clients_.end() && !send_to(*client, std::move(message))) client->gone = true;
  drop_gone();
}

bool MachineLeader::takes_part(int machine) const {
  const auto client = std::ranges::find(clients_, machine, &Client::machine);
  return client != clients_.end() && client->takes_part;
}

void MachineLeader::give_up(int machine, std::chrono::milliseconds waited) {
  const auto client = std::ranges::find(clients_, machine, &Client::machine);
  if (client == clients_.end()) return;
  client->gone = true;
  client->how =
      fmt::format("did not answer within {:.3g} s: it counts as lost", std::chrono::duration<double>(waited).count());
  drop_gone();
}

void MachineLeader::drop_gone() {
  for (const Client& client : clients_) {
    if (!client.gone || client.machine < 0 || !goes_on_) continue;
    const std::string line = fmt::format("machine {}: its launcher (at {}) {}{}", client.machine, client.address,
                                         client.how, client.takes_part ? ", and its ranks with it" : "");
    news_ += fmt::format("zero launch: {}\n", line);
    if (client.takes_part)
      dropped_.push_back(
          {.kind = Says::kEnded, .machine = client.machine, .status = kRankFailedStatus, .text = line + "\n"});
  }
  std::erase_if(clients_, [](const Client& client) { return client.gone; });
}

void MachineLeader::end(MachineMessage over, std::chrono::milliseconds limit) {
  const bool again = over.status == MachineMessage::kAllAgain;
  hear();
  for (Client& client : clients_)
    if (client.machine >= 0 && !send_to(client, over)) client.gone = true;
  goes_on_ = false;
  drop_gone();
  if (!again) return;
  const auto deadline = Clock::now() + limit;
  const auto somebody_ends = [this] { return std::ranges::any_of(clients_, &Client::takes_part); };
  while (somebody_ends() && Clock::now() < deadline) {
    std::vector<pollfd> fds = watched();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    poll(fds.data(), fds.size(), static_cast<int>(std::max<std::int64_t>(0, left.count())));
    hear();
  }
  for (Client& client : clients_) {
    if (!client.takes_part) continue;
    client.gone = true;
    news_ +=
        fmt::format("zero launch: machine {}: its ranks did not end within {} ms: its launcher is not waited for\n",
                    client.machine, limit.count());
  }
  drop_gone();
}

}  // namespace zero
