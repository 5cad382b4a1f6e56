#include "app/launch/machines/machine_messages.h"

#include <cstdlib>
#include <sstream>

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "zero/base/error/error.h"
#include "zero/comm/rendezvous/detect_ranks.h"
#include "zero/comm/rendezvous/handshake.h"
#include "zero/comm/rendezvous/job_token.h"

namespace zero {
namespace {

constexpr const char* kFormat = "launcher 2";
constexpr int kLastPort = 65535;
constexpr std::size_t kMostText = std::size_t{64} << 10;

}  // namespace

meeting::Message to_message(const MachineMessage& message) {
  const std::string text = fmt::format("{} {} {} {} {} {} {} {} {}\n{}", static_cast<int>(message.kind),
                                       message.generation, message.machine, message.rank, message.ms, message.number,
                                       message.used, message.left, message.status, message.text.substr(0, kMostText));
  return {.operation = meeting::Operation::kSet, .key = kFormat, .value = {text.begin(), text.end()}};
}

std::optional<MachineMessage> to_machine_message(const meeting::Message& message) {
  if (message.operation != meeting::Operation::kSet || message.key != kFormat) return std::nullopt;
  std::istringstream words(std::string(message.value.begin(), message.value.end()));
  MachineMessage out;
  int kind = -1;
  words >> kind >> out.generation >> out.machine >> out.rank >> out.ms >> out.number >> out.used >> out.left >>
      out.status;
  if (!words || words.get() != '\n' || kind < 0 || kind > static_cast<int>(MachineMessage::Kind::kEnded))
    return std::nullopt;
  out.kind = static_cast<MachineMessage::Kind>(kind);
  std::ostringstream text;
  if (words.peek() != std::istringstream::traits_type::eof()) text << words.rdbuf();
  out.text = text.str();
  return out;
}

std::string starting_alone(const MachineMessage& again) {
  return fmt::format("restarting only this rank{} ({} of {}, {} left)",
                     again.ms > 0 ? fmt::format(" in {} s", again.ms / 1000) : std::string(), again.used,
                     again.used + again.left, again.left);
}

MachineMeeting machine_meeting(const LaunchOptions& options, const std::string& run_id) {
  if (options.master_port >= kLastPort)
    throw ConfigError(
        "--master-port", std::to_string(options.master_port),
        "with --spared-from the launchers of several machines meet at the next port, and there is no next port",
        "give a lower port");
  RankEnvironment ranks;
  ranks.world = options.nodes * options.ranks;
  ranks.local_world = options.ranks;
  const std::string name = "launchers of " + run_id;
  return {.address = options.master_address,
          .port = options.master_port + 1,
          .name = name.substr(0, meeting::kMostNameBytes),
          .secret = meeting::rendezvous_secret(rendezvous_token(ranks, std::getenv), name),
          .options = fmt::format("--nnodes {} --nproc-per-node {} --spared-from {} --max-restarts {}", options.nodes,
                                 options.ranks, options.spared_from, options.max_restarts)};
}

void watch_connection(int socket) {
  constexpr int on = 1, idle_s = 10, between_s = 5, most_silent = 4;
  constexpr unsigned most_unsent_ms = 30'000;
  constexpr timeval most_of_a_send{.tv_sec = 1, .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &most_of_a_send, sizeof most_of_a_send);
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &most_silent, sizeof most_silent);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_unsent_ms, sizeof most_unsent_ms);
}

}  // namespace zero
