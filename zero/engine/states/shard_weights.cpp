#include "zero/engine/states/shard_weights.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/process/machine.h"
#include "zero/comm/collectives.h"
#include "zero/plan/units/weighted_cut.h"

namespace zero {
namespace {

// Coarse, so ranks of one machine, which measure one after the other, get the same result.
constexpr double kWeightsInGiB = 16;
constexpr std::int64_t kWeightBytes = std::int64_t{64} << 20;

// With different weights, each rank would read another part of its peers' memory.
void require_same(Communicator& run, const std::vector<double>& weights) {
  const std::vector<std::string> all = all_gather_text(run, weights_text(weights));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != all.front())
      throw ConfigError("zero.shard_weights", fmt::format("[{}]", weights_text(weights)),
                        fmt::format("rank 0 has [{}], and rank {} has [{}]", all.front(), rank, all[rank]),
                        "set the same weights on all ranks");
  }
}

}  // namespace

AttachOptions with_shard_weights(AttachOptions options, Communicator& run, int local_world, int owners) {
  if (options.shards != Cut::kWeighted) return options;
  require_same(run, options.shard_weights);
  if (!options.shard_weights.empty()) return options;
  std::int64_t bytes = available_memory() / std::max(local_world, 1);
  if (options.device_memory.kind == MemoryBudget::Kind::kBytes) bytes = std::min(bytes, options.device_memory.bytes);
  const Mesh mesh = mesh_of(owners > 0 ? owners : run.world(), options);
  options.shard_weights = weights_by_memory(run, mesh, bytes);
  return options;
}

std::vector<double> weights_by_memory(Communicator& run, const Mesh& mesh, std::int64_t bytes) {
  const std::vector<std::int64_t> units =
      all_gather_value(run, std::max<std::int64_t>((bytes + kWeightBytes / 2) / kWeightBytes, 1));
  std::vector<double> weights;
  for (int place = 0; place < mesh.shard; ++place) {
    std::int64_t least = units[static_cast<std::size_t>(place)];
    for (const int rank : mesh.ranks_of_shard(place)) least = std::min(least, units[static_cast<std::size_t>(rank)]);
    weights.push_back(static_cast<double>(least) / kWeightsInGiB);
  }
  return weights;
}

}  // namespace zero
