// Updater's functions for whole matrices (MatrixRule), on the host or on a device.
#include <algorithm>

#include "zero/base/process/clock.h"
#include "zero/engine/options/options.h"
#include "zero/engine/update/matrix_directions.h"
#include "zero/engine/update/updater.h"
#include "zero/engine/update/updater_spans.h"

namespace zero {

// Queued work uses this memory after the update has returned, only in kUpdate, except for a gather. So all units can
// share it.
void Updater::hold_matrix_memory(const AttachOptions& options) {
  Device& device = state_.device();
  if (device.host_readable() || host_updates(device, options)) return;
  const bool any = std::ranges::any_of(
      state_.units(), [this](const Unit& unit) { return unit.whole_matrices() && !has_host_tiles(unit.index); });
  if (!any) return;
  const std::int64_t bytes = matrix_bytes(state_.units(), state_.world(), state_.placement());
  matrix_memory_ =
      Buffer(device.allocate(static_cast<std::size_t>(bytes)), ledger_, Tier::kDevice, MemoryTag::kStaging);
}

// Computes directions of this rank's shard, completes whole ones, then steps along them. These are two passes over the
// unit, each with its own states, so no state is read twice.
void Updater::update_matrices(int unit) {
  finish();
  const double start = monotonic_seconds();
  const bool there = static_cast<bool>(matrix_memory_) && !has_host_tiles(unit);
  const std::int64_t bytes = bytes_of({.unit = unit, .numel = state_.update_range(unit).numel});
  if (there) {
    const LaneSpan timed = time_queued(unit, bytes);
    queue_matrices(unit);
  } else {
    const TimedSpan timed(timeline_, Activity::kUpdate, unit, bytes);
    update_matrices_here(unit);
  }
  seconds_ += monotonic_seconds() - start;
}

void Updater::update_matrices_here(int unit) {
  MatrixDirections directions(state_, unit, *rule_.matrices(), comm_, ledger_);
  pass_over(
      unit, Pass::kDirections, gradients_[static_cast<std::size_t>(unit)],
      [&](TileMemory& memory, const Tile& tile) {
        memory.parameter = directions.shard() + tile.begin;
        memory.held = nullptr;
      },
      [this](std::size_t param, const UpdateSpan& span) { rule_.matrices()->direct(span, scalars_of(param)); });
  directions.complete(present_, team_);
  pass_over(
      unit, Pass::kSteps, {.data = reinterpret_cast<const std::byte*>(directions.shard())},
      [](TileMemory&, const Tile&) {},
      [this](std::size_t param, const UpdateSpan& span) {
        UpdateScalars scalars = scalars_of(param);
        scalars.gradient_scale = 1;
        rule_.update(span, scalars);
      });
}

void Updater::queue_matrices(int unit) {
  Device& device = state_.device();
  const MatrixRule& rule = *rule_.matrices();
  MatrixDirections directions(state_, unit, rule, direction_comm_, matrix_memory_.bytes());
  queue_over(
      unit, Pass::kDirections, gradients_[static_cast<std::size_t>(unit)],
      [&](TileMemory& memory, const Tile& tile) {
        memory.parameter = directions.shard() + tile.begin;
        memory.held = nullptr;
      },
      [&](std::span<const SpanUpdate> updates) { rule.queue_directions(device, Lane::kUpdate, updates); });
  directions.queue_completion(present_);
  queue_over(
      unit, Pass::kSteps, {.data = reinterpret_cast<const std::byte*>(directions.shard())},
      [](TileMemory&, const Tile&) {},
      [&](std::vector<SpanUpdate>& updates) {
        for (SpanUpdate& update : updates) update.scalars.gradient_scale = 1;
        rule_.queue(device, Lane::kUpdate, updates);
      });
}

}  // namespace zero
