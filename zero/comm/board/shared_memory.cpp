#include "zero/comm/board/shared_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/board_communicator.h"
#include "zero/comm/board/windows.h"
#include "zero/comm/rendezvous/host_rendezvous.h"

namespace zero {
namespace {

// Returns the name of the socket, which may have 107 bytes. In a longer name, the end is replaced by a hash (FNV-1a) of
// the whole.
std::string socket_name(const std::string& run_id) {
  std::string name = fmt::format("zero.cpp-{}-{}", geteuid(), run_id);
  if (name.size() <= 100) return name;
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : name) hash = (hash ^ c) * 0x100000001b3;
  return fmt::format("{}-{:016x}", name.substr(0, 80), hash);
}

}  // namespace

std::unique_ptr<Communicator> connect_shared_memory(const RankEnvironment& ranks, std::chrono::milliseconds timeout) {
  const auto refuse = [](const std::string& reason, const std::string& remedy) {
    throw ConfigError("comm.transport", "shared_memory", reason, remedy);
  };
  if (ranks.world != ranks.local_world) {
    refuse(fmt::format("joins ranks of one machine; {} of {} ranks are here", ranks.local_world, ranks.world),
           "use mpi or gloo across machines");
  }
  if (ranks.world > kMaxBoardRanks) {
    refuse(fmt::format("cannot hold {} ranks", ranks.world),
           fmt::format("use at most {} ranks, or mpi or gloo", kMaxBoardRanks));
  }
  if (ranks.world > 1 && ranks.run_id.empty()) {
    refuse("needs the name of the run", "set ZERO_RUN_ID to the same word on all ranks");
  }
  HostRendezvous rendezvous =
      meet_on_host(socket_name(ranks.run_id), ranks.rank, ranks.world, ranks.generation, Board::bytes(ranks.world),
                   timeout, {.number = ranks.replacement, .most = ranks.most_replacements});
  auto windows = std::make_unique<Windows>(std::move(rendezvous), ranks.rank, timeout, ranks.most_replacements);
  return std::make_unique<BoardCommunicator>(std::move(windows), ranks.rank, ranks.world, timeout);
}

}  // namespace zero
