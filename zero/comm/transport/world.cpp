#include "zero/comm/transport/world.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/numbers/number_range.h"
#include "zero/comm/board/in_process.h"
#include "zero/comm/transport/open_transport.h"
#include "zero/comm/transport/record_flight.h"

namespace zero {

World::World(std::unique_ptr<Communicator> communicator, int local_world, std::string source, const std::string& run)
    : communicator_(std::move(communicator)), local_world_(local_world), source_(std::move(source)) {
  if (auto recorded = record_flight(communicator_, run, std::getenv)) {
    recorded_ = recorded.get();
    communicator_ = std::move(recorded);
  }
}

World::World(std::unique_ptr<Communicator> group, const World& of)
    : communicator_(std::move(group)),
      local_world_(std::min(of.local_world_, communicator_->world())),
      source_(of.source_) {}

World::~World() {
  if (made_here_.in_child()) keep_forever(std::move(communicator_));
}

void World::keep_flight_in(const std::filesystem::path& folder) {
  if (recorded_ != nullptr && flight_folder(std::getenv).empty()) recorded_->write_on_failure(folder);
}

void World::write_flight(const std::exception& error) noexcept {
  if (recorded_ == nullptr) return;
  const auto* const of_peers = dynamic_cast<const CommError*>(&error);
  // Often one rank's error, thrown by every rank.
  const bool of_all = dynamic_cast<const IoError*>(&error) != nullptr;
  const std::string_view text = error.what();
  recorded_->write({.reason = std::string(text.substr(0, text.find("\nException raised from "))),  // libtorch's trace
                    .blamed = of_peers != nullptr ? of_peers->rank() : (of_all ? -1 : rank())});
}

namespace {

void require_timeout(std::chrono::milliseconds timeout) {
  require_number("comm.timeout", static_cast<double>(timeout.count()), kAboveZero, "use for example 60 s");
}

}  // namespace

World World::from_environment(const WorldOptions& options) {
  require_timeout(options.timeout);
  const RankEnvironment ranks = detect_ranks(options.ranks, std::getenv);
  ZERO_LOG(info, "{}", describe(ranks));
  if (ranks.per_node) {
    throw ConfigError("world", ranks.source, "these variables describe a node, not a process",
                      "start the program with zero launch, which starts the ranks of the node");
  }
  const bool links_devices = options.transport == "nccl";
  const std::string_view of_host = links_devices ? std::string_view("auto") : options.transport;
  World world = [&] {
    if (ranks.world == 1 && (of_host == "auto" || of_host == "in_process"))
      return World(std::move(make_in_process(1, options.timeout).front()), 1, ranks.source);
    if (of_host == "in_process") {
      throw ConfigError("comm.transport", options.transport, "its ranks are threads, but a launcher started processes",
                        "use shared_memory, or start one process with -n");
    }
    return World(open_transport(of_host, ranks, options.timeout), ranks.local_world, ranks.source, ranks.run_id);
  }();
  world.links_devices_ = links_devices;
  return world;
}

std::vector<World> World::in_process(int world, const WorldOptions& options) {
  require_timeout(options.timeout);
  std::vector<World> worlds;
  const std::string run = fmt::format("threads-{}", ::getpid());
  for (auto& communicator : make_in_process(world, options.timeout))
    worlds.emplace_back(std::move(communicator), world, "threads of one process", run);
  for (World& one : worlds) one.links_devices_ = options.transport == "nccl";
  return worlds;
}

}  // namespace zero
