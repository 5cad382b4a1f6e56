#include "zero/engine/update/matrix_pass.h"

#include <algorithm>

#include "zero/engine/update/matrix_directions.h"

namespace zero {
namespace {

constexpr PassStates kDirections{
    .gradient = true,
    .writes = true,
    .touches = [](const StateSpec& /*state*/, std::size_t index, std::size_t /*count*/) { return index == 0; }};
constexpr PassStates kSteps{
    .parameter = true, .writes = true, .touches = [](const StateSpec& state, std::size_t index, std::size_t /*count*/) {
      return !state.outer && index > 0;
    }};

// Directions are written to their place, not to the parameters.
auto to_directions(const MatrixDirections& directions) {
  return [&directions](TileMemory& memory, const Tile& tile) {
    memory.parameter = directions.shard() + tile.begin;
    memory.held = nullptr;
  };
}

UnitGradient as_gradient(const MatrixDirections& directions) {
  return {.data = reinterpret_cast<const std::byte*>(directions.shard())};
}

}  // namespace

// Queued work uses this memory after the update has returned, only in kUpdate, except for a gather. So all units can
// share it.
MatrixPass::MatrixPass(const UpdateRule& rule, ShardedState& state, StepValues& values, UpdateTiles& tiles,
                       Communicator& comm, Communicator& direction_comm, Ledger& ledger, const AttachOptions& options)
    : rule_(rule),
      state_(state),
      values_(values),
      tiles_(tiles),
      comm_(comm),
      direction_comm_(direction_comm),
      ledger_(ledger),
      timeline_(options.timeline) {
  Device& device = state.device();
  if (device.host_readable() || host_updates(device, options)) return;
  const bool any = std::ranges::any_of(
      state.units(), [&tiles](const Unit& unit) { return unit.whole_matrices() && !tiles.has_host_tiles(unit.index); });
  if (!any) return;
  const std::int64_t bytes = matrix_bytes(state.units(), state.world(), state.placement());
  memory_ = Buffer(device.allocate(static_cast<std::size_t>(bytes)), ledger, Tier::kDevice, MemoryTag::kStaging);
}

void MatrixPass::update(int unit, const UnitGradient& gradient) {
  const std::int64_t bytes = tiles_.bytes_of({.unit = unit, .numel = state_.update_range(unit).numel});
  if (static_cast<bool>(memory_) && !tiles_.has_host_tiles(unit)) {
    const LaneSpan timed = tiles_.time_queued(unit, bytes);
    queue(unit, gradient);
  } else {
    const TimedSpan timed(timeline_, Activity::kUpdate, unit, bytes);
    update_on_host(unit, gradient);
  }
}

void MatrixPass::update_on_host(int unit, const UnitGradient& gradient) {
  MatrixDirections directions(state_, unit, *rule_.matrices(), comm_, ledger_);
  tiles_.over(
      unit, kDirections, gradient, to_directions(directions),
      [this](std::size_t param, const UpdateSpan& span) { rule_.matrices()->direct(span, values_.scalars_of(param)); });
  directions.complete(values_.present(), tiles_.team());
  tiles_.over(unit, kSteps, as_gradient(directions), kUnchanged, [this](std::size_t param, const UpdateSpan& span) {
    UpdateScalars scalars = values_.scalars_of(param);
    scalars.gradient_scale = 1;
    rule_.update(span, scalars);
  });
}

void MatrixPass::queue(int unit, const UnitGradient& gradient) {
  Device& device = state_.device();
  const MatrixRule& rule = *rule_.matrices();
  MatrixDirections directions(state_, unit, rule, direction_comm_, memory_.bytes());
  tiles_.queue_over(unit, kDirections, gradient, to_directions(directions), [&](std::span<const SpanUpdate> updates) {
    rule.queue_directions(device, Lane::kUpdate, updates);
  });
  directions.queue_completion(values_.present());
  tiles_.queue_over(unit, kSteps, as_gradient(directions), kUnchanged, [&](std::vector<SpanUpdate>& updates) {
    for (SpanUpdate& update : updates) update.scalars.gradient_scale = 1;
    rule_.queue(device, Lane::kUpdate, updates);
  });
}

}  // namespace zero
