#include "zero/torch/world.h"

#include <cstdlib>

#include "zero/base/error.h"
#include "zero/base/log.h"
#include "zero/comm/in_process.h"
#include "zero/comm/plugin.h"

namespace zero {

World::World(std::unique_ptr<Communicator> communicator, int local_world, std::string source)
    : communicator_(std::move(communicator)), local_world_(local_world), source_(std::move(source)) {}

World World::from_environment(const WorldOptions& options) {
  const RankEnvironment ranks =
      detect_ranks(options.ranks, [](const char* name) -> const char* { return std::getenv(name); });
  ZERO_LOG(info, "{}", describe(ranks));
  if (ranks.per_node) {
    throw ConfigError("world", ranks.source, "these variables describe a node, not a process",
                      "start the program with zero launch, which starts the node's ranks");
  }
  if (ranks.world == 1 && options.transport == "auto")
    return World(std::move(make_in_process(1, options.timeout).front()), 1, ranks.source);
  if (options.transport == "in_process") {
    if (ranks.world == 1) return World(std::move(make_in_process(1, options.timeout).front()), 1, ranks.source);
    throw ConfigError("comm.transport", options.transport, "its ranks are threads, but a launcher started processes",
                      "use shared_memory, or start one process with -n");
  }
  return World(open_transport(options.transport, ranks, options.timeout), ranks.local_world, ranks.source);
}

std::vector<World> World::in_process(int world, const WorldOptions& options) {
  std::vector<World> worlds;
  for (auto& communicator : make_in_process(world, options.timeout))
    worlds.emplace_back(std::move(communicator), world, "threads of one process");
  return worlds;
}

}  // namespace zero
