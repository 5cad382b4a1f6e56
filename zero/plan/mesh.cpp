#include "zero/plan/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error.h"
#include "zero/plan/partition.h"

namespace zero {
namespace {

std::vector<int> divisors(int world) {
  std::vector<int> found;
  for (int divisor = 1; divisor <= world; ++divisor)
    if (world % divisor == 0) found.push_back(divisor);
  return found;
}

}  // namespace

std::vector<int> Mesh::ranks_of_copy(int copy) const {
  std::vector<int> ranks;
  for (int place = 0; place < shard; ++place) ranks.push_back(copy * shard + place);
  return ranks;
}

std::vector<int> Mesh::ranks_of_shard(int place) const {
  std::vector<int> ranks;
  for (int copy = 0; copy < copies; ++copy) ranks.push_back(copy * shard + place);
  return ranks;
}

Mesh mesh_of(int world, int group) {
  if (group == 0) group = world;
  if (group < 0 || group > world || world % group != 0) {
    throw ConfigError(
        "zero.group", fmt::format("{}", group),
        fmt::format("{} ranks cannot be divided into groups of this size", world),
        fmt::format("use 0 (all ranks hold the model once), or one of {}", fmt::join(divisors(world), ", ")));
  }
  return {.shard = group, .copies = world / group};
}

std::int64_t sent_between_copies(const Unit& unit, const Mesh& mesh, int copy) {
  if (mesh.copies == 1 || !unit.trainable) return 0;
  const bool at_an_end = copy == 0 || copy == mesh.copies - 1;
  const std::int64_t shard_bytes = shard_numel(unit, mesh.shard) * 4;
  return (at_an_end ? 1 : 2) * shard_bytes;
}

}  // namespace zero
