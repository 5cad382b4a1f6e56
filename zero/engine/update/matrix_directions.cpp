#include "zero/engine/update/matrix_directions.h"

#include <algorithm>

#include "zero/comm/collectives.h"
#include "zero/engine/states/unit_blocks.h"
#include "zero/memory/account/host_memory.h"
#include "zero/plan/units/estimate.h"

namespace zero {
namespace {

constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(float));

// Returns the part of the unit's flat range that this rank holds directions of.
Shard held_of(const ShardedState& state, int unit) {
  const bool gathers = gathers_directions(state.unit(unit), state.world(), state.placement());
  return gathers ? Shard{0, padded_numel(state.unit(unit), state.world())} : state.update_range(unit);
}

// If the host can read the device, both are main memory.
Buffer memory_for(const ShardedState& state, int unit, Ledger& ledger) {
  const std::int64_t numel = state.unit(unit).workspace_numel + held_of(state, unit).numel;
  return {allocate_host(static_cast<std::size_t>(numel * kElementBytes)), ledger,
          state.device().host_readable() ? Tier::kDevice : Tier::kHost, MemoryTag::kStaging};
}

}  // namespace

MatrixDirections::MatrixDirections(const ShardedState& state, int unit, const MatrixRule& rule, Communicator& comm,
                                   Ledger& ledger)
    : MatrixDirections(state, unit, rule, comm, std::span<std::byte>()) {
  own_ = memory_for(state, unit, ledger);
  floats_ = own_.as<float>();
}

MatrixDirections::MatrixDirections(const ShardedState& state, int unit, const MatrixRule& rule, Communicator& comm,
                                   std::span<std::byte> there)
    : state_(state),
      unit_(unit),
      rule_(rule),
      comm_(comm),
      gathers_(gathers_directions(state.unit(unit), state.world(), state.placement())),
      held_(held_of(state, unit)),
      floats_(reinterpret_cast<float*>(there.data()), there.size() / sizeof(float)) {}

void MatrixDirections::gather() {
  const Shard own = state_.shard(unit_);
  const std::span<std::byte> all = std::as_writable_bytes(std::span(at(0), static_cast<std::size_t>(held_.numel)));
  all_gather(
      comm_,
      all.subspan(static_cast<std::size_t>(own.offset * kElementBytes),
                  static_cast<std::size_t>(own.numel * kElementBytes)),
      all,
      {.unit = unit_,
       .blocks = unit_blocks(state_.unit(unit_),
                             sizeof(float))});  // and no late peer reads this rank's any more: they are about to change
}

template <typename Use>
void MatrixDirections::for_each_matrix(const std::vector<bool>& present, Use use) const {
  for (const Slice& slice : state_.unit(unit_).slices) {
    if (!present[static_cast<std::size_t>(slice.param)]) continue;
    if (overlap(slice, state_.update_range(unit_)).numel == 0) continue;
    use(at(slice.offset), MatrixShape{slice.rows, slice.columns()});
  }
}

void MatrixDirections::complete(const std::vector<bool>& present, ThreadTeam& team) {
  if (gathers_) gather();
  for_each_matrix(present, [&](float* directions, const MatrixShape& matrix) {
    rule_.complete(directions, matrix, workspace(), team);
  });
}

void MatrixDirections::queue_completion(const std::vector<bool>& present) {
  Device& device = state_.device();
  if (gathers_) {
    for (const Lane lane : {Lane::kDown, Lane::kUp}) follow(device, lane, Lane::kUpdate);
    gather();
    follow(device, Lane::kUpdate, Lane::kUp);
  }
  for_each_matrix(present, [&](float* directions, const MatrixShape& matrix) {
    rule_.queue_completion(device, Lane::kUpdate, directions, matrix, workspace());
  });
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
