#include "zero/engine/shard_weights.h"

#include <algorithm>

#include "zero/base/machine.h"
#include "zero/comm/collectives.h"

namespace zero {
namespace {

// Coarse, so that ranks of one machine, which measure one after the other, find the same.
constexpr std::int64_t kWeightBytes = std::int64_t{64} << 20;

}  // namespace

EngineOptions with_shard_weights(EngineOptions options, Communicator& run, int local_world) {
  if (options.shards != Cut::kWeighted || !options.shard_weights.empty() || options.sync.has_servers()) return options;
  std::int64_t bytes = available_memory() / std::max(local_world, 1);
  if (options.device_memory.kind == MemoryBudget::Kind::kBytes) bytes = std::min(bytes, options.device_memory.bytes);
  options.shard_weights = weights_by_memory(run, mesh_of(run.world(), options), bytes);
  return options;
}

std::vector<double> weights_by_memory(Communicator& run, const Mesh& mesh, std::int64_t bytes) {
  const std::vector<std::int64_t> units =
      all_gather_value(run, std::max<std::int64_t>((bytes + kWeightBytes / 2) / kWeightBytes, 1));
  std::vector<double> weights;
  for (int place = 0; place < mesh.shard; ++place) {
    std::int64_t least = units[static_cast<std::size_t>(place)];
    for (const int rank : mesh.ranks_of_shard(place)) least = std::min(least, units[static_cast<std::size_t>(rank)]);
    weights.push_back(static_cast<double>(least));
  }
  return weights;
}

}  // namespace zero
