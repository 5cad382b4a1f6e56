#include "zero/engine/matrix_directions.h"

#include <algorithm>

#include "zero/comm/collectives.h"
#include "zero/engine/unit_blocks.h"
#include "zero/memory/host_memory.h"
#include "zero/plan/estimate.h"

namespace zero {
namespace {

constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(float));

Buffer floats(const Device& device, std::int64_t numel, Ledger& ledger) {
  return {allocate_host(static_cast<std::size_t>(numel * kElementBytes)), ledger,
          device.host_readable() ? Tier::kDevice : Tier::kHost, MemoryTag::kStaging};
}

}  // namespace

MatrixDirections::MatrixDirections(const ShardedState& state, int unit, const MatrixRule& rule, Communicator& comm,
                                   Ledger& ledger)
    : state_(state),
      unit_(unit),
      rule_(rule),
      comm_(comm),
      ledger_(ledger),
      gathers_(gathers_directions(state.unit(unit), state.world(), state.placement())),
      held_(gathers_ ? Shard{0, padded_numel(state.unit(unit), state.world())} : state.update_range(unit)),
      directions_(floats(state.device(), held_.numel, ledger)) {}

void MatrixDirections::gather() {
  const Shard own = state_.shard(unit_);
  const std::span<std::byte> all = directions_.bytes();
  all_gather(
      comm_,
      all.subspan(static_cast<std::size_t>(own.offset * kElementBytes),
                  static_cast<std::size_t>(own.numel * kElementBytes)),
      all,
      {.unit = unit_,
       .blocks = unit_blocks(state_.unit(unit_),
                             sizeof(float))});  // and no late peer reads this rank's any more: they are about to change
}

void MatrixDirections::complete(const std::vector<bool>& present, ThreadTeam& team) {
  if (gathers_) gather();
  const Unit& unit = state_.unit(unit_);
  const Buffer workspace = floats(state_.device(), unit.workspace_numel, ledger_);
  for (const Slice& slice : unit.slices) {
    if (!present[static_cast<std::size_t>(slice.param)]) continue;
    if (overlap(slice, state_.update_range(unit_)).numel == 0) continue;
    rule_.complete(at(slice.offset), {slice.rows, slice.columns()}, workspace.as<float>(), team);
  }
}

std::int64_t matrix_bytes(const std::vector<Unit>& units, int world, const Placement& placement) {
  std::int64_t most = 0;
  for (const Unit& unit : units) {
    if (!unit.whole_matrices()) continue;
    const bool of_shard = placement.optimizer_sharded && !gathers_directions(unit, world, placement);
    const std::int64_t directions = of_shard ? shard_numel(unit, world) : padded_numel(unit, world);
    most = std::max(most, (directions + unit.workspace_numel) * kElementBytes);
  }
  return most;
}

double matrix_cost(const std::vector<Unit>& units, int world, const Placement& placement,
                   const std::function<double(const MatrixShape&)>& cost) {
  std::vector<double> by_rank(placement.optimizer_sharded ? static_cast<std::size_t>(world) : 1, 0.0);
  for (const Unit& unit : units) {
    if (!unit.whole_matrices()) continue;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      const Shard updated = placement.optimizer_sharded ? shard_of(unit, static_cast<int>(rank), world)
                                                        : Shard{0, padded_numel(unit, world)};
      for (const Slice& slice : unit.slices)
        if (overlap(slice, updated).numel > 0) by_rank[rank] += cost({slice.rows, slice.columns()});
    }
  }
  return *std::ranges::max_element(by_rank);
}

double matrix_flops(const std::vector<Unit>& units, int world, const Placement& placement, const MatrixRule& rule) {
  return matrix_cost(units, world, placement, [&](const MatrixShape& matrix) { return rule.completion_flops(matrix); });
}

}  // namespace zero
