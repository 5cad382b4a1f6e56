#include "zero/plan/units/mesh.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/topk_blocks.h"
#include "zero/base/text/bytes.h"

namespace zero {
namespace {

constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));

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

Mesh mesh_of(int world, int group, std::string_view key) {
  if (group == 0) group = world;
  if (group < 0 || group > world || world % group != 0) {
    throw ConfigError(
        key, fmt::format("{}", group), fmt::format("{} ranks cannot be divided into groups of this size", world),
        fmt::format("use 0 (all ranks hold one copy of the model), or one of {}", fmt::join(divisors(world), ", ")));
  }
  return {.shard = group, .copies = world / group};
}

Mesh mesh_of_local(int world, int group, std::string_view key) {
  const Mesh mesh = mesh_of(world, group == 0 ? 1 : group, key);
  if (mesh.copies > 1) return mesh;
  throw ConfigError(
      "sync.mode", "local",
      fmt::format("there is only one copy of the model, on {}, and training apart needs two or more",
                  format_count(world, "rank")),
      world > 1 ? "use zero.group 0 (one rank a copy), or a number that divides the ranks; or use sync.mode sync"
                : "use more ranks, or sync.mode sync");
}

int num_crossings(const Mesh& mesh, int copy, WireCodec codec) {
  if (mesh.copies == 1) return 0;
  if (codec != WireCodec::kNone) return 1;
  return copy == 0 || copy == mesh.copies - 1 ? 1 : 2;
}

std::int64_t crossing_bytes(const Unit& unit, const Mesh& mesh, WireCodec codec) {
  if (!unit.trainable) return 0;
  if (codec == WireCodec::kNone) return shard_numel(unit, mesh.shard) * kFloatBytes;
  return 2 * (mesh.copies - 1) * wire_bytes(codec, outer_block_numel(unit, mesh), DType::kFloat32);
}

std::int64_t sent_between_copies(const Unit& unit, const Mesh& mesh, int copy, WireCodec codec) {
  return num_crossings(mesh, copy, codec) * crossing_bytes(unit, mesh, codec);
}

std::int64_t sent_between_copies(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement) {
  if (placement.merged_copies > 1 || mesh.copies == 1) return 0;
  const int rounds = placement.reduce_each ? placement.accumulate : 1;
  const WireCodec codec = placement.wire.outer;
  std::int64_t bytes = 0;
  for (const Unit& unit : units) bytes += rounds * crossing_bytes(unit, mesh, codec);
  return codec == WireCodec::kNone ? 2 * (mesh.copies - 1) * bytes / mesh.copies : bytes;
}

std::int64_t outer_block_numel(const Unit& unit, const Mesh& mesh) {
  return (shard_numel(unit, mesh.shard) + mesh.copies - 1) / mesh.copies;
}

OuterBytes outer_bytes(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement) {
  OuterBytes bytes;
  for (const Unit& unit : units) {
    if (!unit.trainable) continue;
    const WireCodecs& wire = placement.wire;
    bytes.between_copies +=
        (mesh.copies - 1) * (wire.outer_topk > 0
                                 ? topk_bytes(shard_numel(unit, mesh.shard), wire.outer_topk)
                                 : 2 * wire_bytes(wire.outer, outer_block_numel(unit, mesh), DType::kFloat32));
    const std::int64_t gathered = (mesh.shard - 1) * shard_numel(unit, mesh.shard);
    if (!placement.optimizer_sharded) {
      bytes.within += gathered * kFloatBytes;
    } else if (!placement.parameter_sharded) {
      bytes.within += gathered * static_cast<std::int64_t>(size_of(unit.dtype));
    }
  }
  return bytes;
}

double outer_formula_bytes(std::int64_t numel, const Mesh& mesh, const WireCodecs& wire) {
  const double shards = static_cast<double>(numel) / mesh.shard * (mesh.copies - 1);
  if (wire.outer_topk > 0) return topk_element_bytes(wire.outer_topk) * shards;
  return 2 * wire_element_bytes(wire.outer, DType::kFloat32) * shards / mesh.copies;
}

Shard saved_part(const Unit& unit, const Mesh& mesh, int rank) {
  const Shard own = shard_of(unit, mesh.shard_of(rank), mesh.shard);
  const std::int64_t part = (own.numel + mesh.copies - 1) / mesh.copies;
  const std::int64_t begin = std::min(own.numel, mesh.copy_of(rank) * part);
  return {own.offset + begin, std::min(part, own.numel - begin)};
}

}  // namespace zero
