#include "app/launch/ranks/rank_environment.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/random_bytes.h"

namespace zero {

Variables rank_variables(const LaunchOptions& options, const RunIdentity& identity, int local_rank, int num_cores,
                         int replacement) {
  const auto text = [](int number) { return std::to_string(number); };
  const std::string rank = text(options.node_rank * options.ranks + local_rank);
  const std::string world = text(options.nodes * options.ranks);
  Variables variables{
      {"RANK", rank},
      {"WORLD_SIZE", world},
      {"LOCAL_RANK", text(local_rank)},
      {"LOCAL_WORLD_SIZE", text(options.ranks)},
      {"GROUP_RANK", text(options.node_rank)},
      {"GROUP_WORLD_SIZE", text(options.nodes)},
      {"ROLE_RANK", rank},
      {"ROLE_WORLD_SIZE", world},
      {"ROLE_NAME", options.role},
      {"MASTER_ADDR", options.master_address},
      {"MASTER_PORT", text(identity.master_port)},
      {"TORCHELASTIC_RUN_ID", options.run_name.empty() ? identity.run_id : options.run_name},
      {"TORCHELASTIC_RESTART_COUNT", text(identity.generation)},
      {"TORCHELASTIC_MAX_RESTARTS", text(options.max_restarts)},
      {"OMP_NUM_THREADS", text(std::max(1, num_cores / options.ranks))},
      {"OMP_WAIT_POLICY", "passive"},  // as in `zero train`: see app/cli/command/torch_library.cpp
      // The ranks must not use the store of an outer torchrun.
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"ZERO_RUN_ID", identity.run_id},
      {"ZERO_LAUNCH_ID", identity.launch_id},
      {"ZERO_GENERATION", text(identity.generation)},
      {"ZERO_CORES_BOUND", options.bind_cores && num_cores >= options.ranks ? "1" : "0"},
  };
  if (replacement > 0) variables.emplace_back("ZERO_REPLACEMENT", text(replacement));
  if (identity.most_replacements > 0) variables.emplace_back("ZERO_MAX_REPLACEMENTS", text(identity.most_replacements));
  if (options.asked_ranks > options.ranks) variables.emplace_back("ZERO_ASKED_WORLD", text(options.asked_ranks));
  if (!identity.token.empty()) variables.emplace_back("ZERO_TOKEN", identity.token);
  variables.insert(variables.end(), options.variables.begin(), options.variables.end());
  return variables;
}

std::vector<std::string> merge_environment(std::span<const std::string> inherited, const Variables& variables) {
  const auto key_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  const auto is_users_choice = [](std::string_view key) {
    return key == "OMP_NUM_THREADS" || key == "OMP_WAIT_POLICY";
  };
  const auto user_chose = [&](std::string_view key) {
    return is_users_choice(key) &&
           std::any_of(inherited.begin(), inherited.end(), [&](const auto& entry) { return key_of(entry) == key; });
  };
  std::vector<std::string> out;
  for (const auto& entry : inherited) {
    const bool replaced = std::any_of(variables.begin(), variables.end(),
                                      [&](const auto& variable) { return variable.first == key_of(entry); });
    if (!replaced || is_users_choice(key_of(entry))) out.push_back(entry);
  }
  for (const auto& [key, value] : variables) {
    if (user_chose(key)) continue;
    out.push_back(fmt::format("{}={}", key, value));
  }
  return out;
}

std::string random_id() {
  return random_name(8);
}

std::string random_token(const LaunchOptions& options, const GetEnvironment& environment) {
  constexpr std::array kUsers{"ZERO_TOKEN", "ZERO_TOKEN_FILE"};
  const auto is_set = [&](const char* name) {
    const char* const value = environment(name);
    return value != nullptr && *value != '\0';
  };
  if (options.nodes > 1 || std::ranges::any_of(kUsers, is_set)) return "";
  return random_id() + random_id() + random_id() + random_id();
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw IoError("MASTER_PORT", "socket", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const int error = errno;
  close(fd);
  if (!bound) throw IoError("MASTER_PORT", "bind", error);
  return ntohs(address.sin_port);
}

}  // namespace zero
