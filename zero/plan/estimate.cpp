#include "zero/plan/estimate.h"

#include "zero/plan/partition.h"

namespace zero {

StateBytes state_bytes(const std::vector<Unit>& units, int world, const Placement& placement, int num_moments) {
  StateBytes bytes;
  for (const Unit& unit : units) {
    const std::int64_t shard = shard_numel(unit.numel, unit.dtype, world);
    const std::int64_t whole = world * shard;
    const auto size = static_cast<std::int64_t>(size_of(unit.dtype));
    bytes.parameter += (placement.parameter_sharded ? shard : whole) * size;
    if (!unit.trainable) continue;
    bytes.gradient += (placement.gradient_sharded ? shard : whole) * (placement.fp32_gradient() ? 4 : size);
    const std::int64_t updated = placement.optimizer_sharded ? shard : whole;
    if (unit.dtype != DType::kFloat32) bytes.master += updated * 4;
    bytes.moment += updated * 4 * num_moments;
  }
  return bytes;
}

std::int64_t sent_bytes(const std::vector<Unit>& units, int world, const Placement& placement) {
  std::int64_t bytes = 0;
  for (const Unit& unit : units) {
    const std::int64_t pass =
        (world - 1) * shard_numel(unit.numel, unit.dtype, world) * static_cast<std::int64_t>(size_of(unit.dtype));
    const int reduces = unit.trainable ? (placement.reduce_each ? placement.accumulate : 1) : 0;
    const int gathers = placement.parameter_sharded ? 2 * placement.accumulate : unit.trainable ? 1 : 0;
    bytes += (reduces + gathers) * pass;
  }
  return bytes;
}

double state_formula_bytes(std::int64_t numel, int world, int stage, DType dtype, int num_moments) {
  const auto p = static_cast<double>(numel);
  const double low = static_cast<double>(size_of(dtype));
  const double optimizer = 4.0 * num_moments + (dtype == DType::kFloat32 ? 0.0 : 4.0);
  const auto share = [&](int from_stage) { return stage >= from_stage ? 1.0 / world : 1.0; };
  return p * (low * share(3) + low * share(2) + optimizer * share(1));
}

double sent_formula_numel(std::int64_t numel, int world, const Placement& placement) {
  const int reduces = placement.reduce_each ? placement.accumulate : 1;
  const int gathers = placement.parameter_sharded ? 2 * placement.accumulate : 1;
  return static_cast<double>(reduces + gathers) * static_cast<double>(numel) * (world - 1) / world;
}

}  // namespace zero
