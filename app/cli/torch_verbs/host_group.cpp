#include "app/cli/torch_verbs/host_group.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "zero/base/text/bytes.h"
#include "zero/comm/board/arrivals.h"
#include "zero/comm/collectives.h"

#include "app/cli/torch_verbs/job.h"
#include "app/cli/torch_verbs/planned_model.h"
#include "app/report/plan/cluster_plan.h"
#include "app/report/plan/memory_fit.h"
#include "app/report/plan/training_plan.h"

namespace zero::cli {
namespace {

bool is_open(const Config& config, bool on_cpu) {
  const AttachOptions& engine = config.engine;
  return config.zero.automatic_group && engine.stage > 0 && engine.sync.servers == 0 && engine.secondary_group == 0 &&
         !config.local.on && config.parallel.pipeline == 1 && on_cpu;
}

HostGroup of_all(int world, const std::string& why) {
  return {.line = fmt::format("zero.group auto: all {} ranks hold one copy of the model: {}", world, why)};
}

// Returns why the keys need all ranks to hold one copy of the model; "" if they do not.
std::string why_all(const Config& config, int ranks_of_host) {
  if (ranks_of_host == 1) return "each machine has one rank";
  if (config.train.leaves > 0) return "copies would add leaves in another order (train.leaves)";
  if (config.engine.wire.gather != WireCodec::kNone || config.engine.wire.reduce != WireCodec::kNone)
    return "comm.gather_wire and comm.reduce_wire code what these send each other";
  if (config.engine.shards == Cut::kWeighted && !config.engine.shard_weights.empty())
    return "zero.shard_weights has a weight for each";
  return "";
}

struct Room {
  std::int64_t needed = 0, free = 0;
  bool is_there = false;
};

// Plans the training if each group of `group` ranks holds one copy of the model.
TrainingPlan plan_with(const PlanRequest& request, int group, int ranks_of_host) {
  AttachOptions attach = attach_options(request.loaded.config, ranks_of_host);
  attach.group = group;
  return planned_model(request, attach).plan;
}

// Returns the room for the states of the whole model on the ranks of one machine, and for their other memory.
Room room_for(const PlanRequest& request, int ranks_of_host) {
  const Config& config = request.loaded.config;
  const TrainingPlan plan = plan_with(request, ranks_of_host, ranks_of_host);
  const MemoryFit fit = fit_of(plan);
  Room room{.needed = fit.needed, .free = fit.free, .is_there = fit.fits()};
  const MemoryBudget& budget = config.engine.device_memory;
  if (budget.kind == MemoryBudget::Kind::kBytes && fit.rank.states + fit.rank.working > budget.bytes)
    room = {.needed = ranks_of_host * (fit.rank.states + fit.rank.working), .free = ranks_of_host * budget.bytes};
  return room;
}

// Returns the time of a step's exchange if each machine holds one copy of the model. It is in thousandths of the time
// if all ranks hold one copy. Sums pass along a chain of copies. The links are the cluster's; without a cluster only
// the network takes time, and then its speed does not matter.
std::int64_t copies_take(const PlanRequest& request, int ranks_of_host) {
  const Cluster machines{.hosts = static_cast<int>(request.machines), .ranks = ranks_of_host, .network = 1e9};
  const Cluster& cluster = request.cluster ? *request.cluster : machines;
  const double copies = exchange_seconds(plan_with(request, ranks_of_host, ranks_of_host), cluster),
               all = exchange_seconds(plan_with(request, 0, ranks_of_host), cluster);
  return all > 0 ? std::llround(1000 * copies / all) : 0;
}

HostGroup choice(int world, int ranks_of_host, std::int64_t copies_take, const Room& room) {
  if (copies_take > 1000)
    return of_all(world, fmt::format("sums along the chain of {} copies would take {:.2f} of the time",
                                     world / ranks_of_host, static_cast<double>(copies_take) / 1000));
  if (!room.is_there)
    return of_all(world, fmt::format("those of one machine would need {} there, and have {}", format_bytes(room.needed),
                                     format_bytes(room.free)));
  return {.ranks = ranks_of_host,
          .line = fmt::format(
              "zero.group auto: the {} ranks of each machine hold one copy of the model, and only gradients "
              "cross between machines (0: all {} ranks hold one copy)",
              ranks_of_host, world)};
}

// Returns the number of ranks of each machine if all machines have equally many, and if neighbouring ranks are on one
// machine; else 0.
int ranks_of_each_host(World& world, int local_rank) {
  const std::vector<std::int64_t> sizes = all_gather_value(world.communicator(), world.local_size()),
                                  places = all_gather_value(world.communicator(), local_rank);
  const std::int64_t size = sizes.front();
  for (std::size_t rank = 0; rank < sizes.size(); ++rank)
    if (sizes[rank] != size || places[rank] != static_cast<std::int64_t>(rank) % size) return 0;
  return world.size() % size == 0 ? static_cast<int>(size) : 0;
}

}  // namespace

HostGroup planned_group(const PlanRequest& request) {
  const Config& config = request.loaded.config;
  const bool on_cpu = config.run.device == "cpu" || config.run.device == "auto";
  if (request.machines == 1 || !is_open(config, on_cpu)) return {};
  const int world = static_cast<int>(request.world), ranks = world / static_cast<int>(request.machines);
  if (const std::string why = why_all(config, ranks); !why.empty()) return of_all(world, why);
  return choice(world, ranks, copies_take(request, ranks), room_for(request, ranks));
}

HostGroup group_of_run(const LoadedConfig& loaded, World& world, int local_rank, const std::string& device) {
  // Workers with servers do not share states, and the replacement of a worker takes part in no collective.
  if (world.local_size() == world.size() || is_replacement(world.communicator())) return {};
  // A later check reports a rank with another configuration.
  if (all_reduce_min(world.communicator(), is_open(loaded.config, device == "cpu") ? 1 : 0) == 0) return {};
  const int ranks = ranks_of_each_host(world, local_rank);
  if (ranks == 0)
    return of_all(world.size(), "the machines have unequal numbers of ranks, or neighbours are on different machines");
  if (const std::string why = why_all(loaded.config, ranks); !why.empty()) return of_all(world.size(), why);
  const PlanRequest request{.loaded = loaded, .world = world.size(), .machines = world.size() / ranks};
  Room room = room_for(request, ranks);
  // All ranks print the same line: the figures of the first machine that lacks most.
  const std::vector<std::int64_t> lacks =
      all_gather_value(world.communicator(), room.is_there ? 0 : std::max<std::int64_t>(room.needed - room.free, 1));
  const auto most = static_cast<std::size_t>(std::ranges::max_element(lacks) - lacks.begin());
  room.needed = all_gather_value(world.communicator(), room.needed)[most];
  room.free = all_gather_value(world.communicator(), room.free)[most];
  room.is_there = lacks[most] == 0;
  const std::int64_t slower = all_reduce_max(world.communicator(), copies_take(request, ranks));
  return choice(world.size(), ranks, slower, room);
}

}  // namespace zero::cli
