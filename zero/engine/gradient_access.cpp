#include "zero/engine/gradient_access.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"
#include "zero/comm/rank_sum.h"
#include "zero/engine/engine_parts.h"
#include "zero/engine/engine_step.h"
#include "zero/engine/reduce/device_sums.h"
#include "zero/engine/states/unit_blocks.h"

namespace zero {

double gradient_divisor(const EngineParts& parts, int passes) {
  if (const GivenGradients* given = parts.reducer.given()) return given->number;
  const double scale = parts.loss_scale ? parts.loss_scale->value() : 1.0;
  if (parts.leaves) return parts.leaves->count() * scale;
  const int num_ranks = parts.options.local ? parts.comms.mesh.shard : parts.comms.run.world();
  const int num_summed = num_ranks * (parts.options.average_micro_batches ? std::max(1, passes) : 1);
  return num_summed * scale;
}

// Reduces the rest of the step, and returns the factor of its sums.
double GradientAccess::finish() {
  io_.run([&] { parts_.passes.end_backward(); });
  const int passes = parts_.executor.finished_backwards();
  if (passes == 0 || passes < parts_.options.accumulate) {
    throw ConfigError(
        "gradient", "",
        fmt::format("a gradient is read after {} of {} backward passes of a step", passes, parts_.options.accumulate),
        "read it between the last backward pass of a step and step()");
  }
  io_.run([&] {
    parts_.gatherer.finish();
    parts_.reducer.finish();
    parts_.state.streams().finish_offloads();
  });
  return 1.0 / gradient_divisor(parts_, passes);
}

void GradientAccess::read(int unit, const std::function<void(std::span<const float>)>& read) {
  const double scale = finish();
  const Shard own = parts_.state.shard(unit);
  const Unit& description = parts_.state.unit(unit);
  std::vector<float> whole(static_cast<std::size_t>(padded_numel(description, parts_.comms.mesh.shard)));
  const std::span<float> shard =
      std::span(whole).subspan(static_cast<std::size_t>(own.offset), static_cast<std::size_t>(own.numel));
  io_.run([&] { parts_.reducer.sums().read_shard(unit, shard); });
  for (float& value : shard) value = static_cast<float>(value * scale);
  all_gather(parts_.comms.copy, std::as_bytes(shard), std::as_writable_bytes(std::span(whole)),
             {.unit = unit, .control = true, .blocks = unit_blocks(description, sizeof(float))});
  if (!description.scattered) return read(whole);
  std::vector<float> ordered(whole.size());
  to_parameter_order(HostDevice::instance(), Lane::kGather, description, std::as_bytes(std::span(whole)).data(),
                     std::as_writable_bytes(std::span(ordered)).data(), sizeof(float));
  read(ordered);
}

std::vector<double> GradientAccess::norms() {
  const double scale = finish();
  std::vector<ExactSum> mine(parts_.specs.size());
  for (const Unit& unit : parts_.state.units()) {
    if (!unit.trainable) continue;
    const Shard own = parts_.state.shard(unit.index);
    std::vector<float> shard(static_cast<std::size_t>(own.numel));
    io_.run([&] { parts_.reducer.sums().read_shard(unit.index, shard); });
    for (const Slice& slice : owned_in(unit, own)) {
      const SlicePart part = overlap(slice, own);
      if (part.numel == 0) continue;
      const auto* begin = reinterpret_cast<const std::byte*>(shard.data() + (part.offset - own.offset));
      const ReduceStats stats = stats_of(begin, DType::kFloat32, part.numel);
      mine[static_cast<std::size_t>(slice.param)].add(stats.sum_squares);
    }
  }
  std::vector<double> norms = sums_over_ranks(parts_.comms.copy, mine);
  for (double& norm : norms) norm = std::sqrt(norm) * scale;
  return norms;
}

bool GradientAccess::any() const {
  return parts_.passes.has_gradients();
}

void GradientAccess::drop(const std::vector<bool>& params) {
  io_.run([&] { step_.drop(params); });
}

}  // namespace zero
