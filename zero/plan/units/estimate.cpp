#include "zero/plan/units/estimate.h"

#include "zero/plan/units/factored.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/secondary.h"

namespace zero {

StateBytes& StateBytes::operator+=(const StateBytes& other) {
  parameter += other.parameter;
  gradient += other.gradient;
  master += other.master;
  moment += other.moment;
  return *this;
}

std::int64_t partial_sum_bytes(const Unit& unit, int world, const Placement& placement) {
  if (!unit.trainable) return 0;
  const std::int64_t numel = placement.sums_leaves_here() ? padded_numel(unit, world) : shard_numel(unit, world);
  return placement.num_partial_sums() * numel * static_cast<std::int64_t>(sizeof(float));
}

StateBytes state_bytes(const std::vector<Unit>& units, int world, const Placement& placement, const OptimizerSpec& spec,
                       Tier tier) {
  StateBytes bytes;
  for (const Unit& unit : units) {
    const auto size = static_cast<std::int64_t>(size_of(unit.dtype));
    const UnitTiers tiers = tiers_of(placement, unit, world);
    bytes.parameter += tier_bytes(tiers.parameter, tier, size);
    bytes.gradient +=
        placement.num_gradients() * tier_bytes(tiers.gradient, tier, placement.fp32_gradient() ? 4 : size);
    if (tier == Tier::kDevice) bytes.gradient += partial_sum_bytes(unit, world, placement);
    if (unit.dtype != DType::kFloat32) bytes.master += tier_bytes(tiers.optimizer, tier, 4);
    for (const StateSpec& state : spec.states) {
      if (state.kept_by(unit.matrices())) bytes.moment += tier_bytes(tiers.optimizer, tier, state.value_bytes());
    }
    if (tier == Tier::kDevice) bytes.moment += spec.scale_bytes(tiers.optimizer.numel());
    if (tier == Tier::kDevice && !placement.updated_elsewhere) bytes.moment += factor_bytes(unit, spec);
  }
  return bytes;
}

StateBytes state_bytes(const std::vector<Unit>& units, int world, const Placement& placement,
                       const OptimizerSpec& spec) {
  StateBytes bytes;
  for (const Tier tier : kAllTiers) bytes += state_bytes(units, world, placement, spec, tier);
  return bytes;
}

StepCollectives collectives_of(const Unit& unit, const Placement& placement) {
  const int uses = 2 * placement.accumulate;
  const bool has_parts = placement.parameter_sharded && placement.secondary_group > 0;
  return {.gathers = has_parts                     ? 1
                     : placement.parameter_sharded ? uses
                     : unit.trainable              ? 1
                                                   : 0,
          .reductions = unit.trainable ? (placement.reduce_each ? placement.accumulate : 1) : 0,
          .part_gathers = has_parts ? uses - 1 : 0};
}

std::int64_t gather_bytes(const Unit& unit, int world, WireCodec codec) {
  return (world - 1) * wire_bytes(codec, shard_numel(unit, world), unit.dtype);
}

std::int64_t reduction_bytes(const Unit& unit, int world, const Placement& placement, WireCodec codec) {
  const DType dtype = wire_dtype(placement, unit);
  if (unit.bounds.empty()) return (world - 1) * wire_bytes(codec, shard_numel(unit, world), dtype);
  return wire_bytes(codec, padded_numel(unit, world) - shard_numel(unit, world), dtype);
}

std::int64_t sent_bytes(const std::vector<Unit>& units, int world, const Placement& placement) {
  std::int64_t bytes = 0;
  for (const Unit& unit : units) {
    const StepCollectives calls = collectives_of(unit, placement);
    bytes += calls.reductions * reduction_bytes(unit, world, placement, placement.wire.reduce) +
             calls.gathers * gather_bytes(unit, world, placement.wire.gather);
    const bool gathers_sums = unit.trainable && !placement.optimizer_sharded && placement.fp32_sums;
    if (gathers_sums && unit.dtype != DType::kFloat32)
      bytes += gather_bytes(unit, world, WireCodec::kNone);  // fp32 has twice the bytes of these types
    bytes += update_sent_bytes(unit, world, placement);
  }
  return bytes + part_sent_bytes(units, world, placement);
}

std::int64_t part_sent_bytes(const std::vector<Unit>& units, int world, const Placement& placement) {
  std::int64_t bytes = 0;
  for (const Unit& unit : units) {
    const int gathers = collectives_of(unit, placement).part_gathers;
    if (gathers > 0) bytes += gathers * part_gather_bytes(unit, world, placement.secondary_group);
  }
  return bytes;
}

bool gathers_directions(const Unit& unit, int world, const Placement& placement) {
  return placement.optimizer_sharded && unit.whole_matrices() && !has_whole_slices(unit, world);
}

std::int64_t update_sent_bytes(const Unit& unit, int world, const Placement& placement) {
  if (unit.factored) return factor_sent_bytes(unit, world);
  if (!gathers_directions(unit, world, placement)) return 0;
  return (world - 1) * shard_numel(unit, world) * static_cast<std::int64_t>(sizeof(float));
}

double update_sent_formula_bytes(const Unit& unit, int world, const Placement& placement) {
  std::int64_t bytes = 0;
  if (unit.factored) {
    bytes = factor_numel(unit) * kFactorSumBytes;
  } else if (gathers_directions(unit, world, placement)) {
    bytes = used_numel(unit) * static_cast<std::int64_t>(sizeof(float));
  }
  return static_cast<double>(bytes) * (world - 1) / world;
}

double state_formula_bytes(std::int64_t numel, int world, int stage, DType dtype, const OptimizerSpec& spec,
                           bool matrices) {
  const auto p = static_cast<double>(numel);
  const double low = static_cast<double>(size_of(dtype));
  const double optimizer = spec.element_bytes(matrices) + (dtype == DType::kFloat32 ? 0.0 : 4.0);
  const auto share = [&](int from_stage) { return stage >= from_stage ? 1.0 / world : 1.0; };
  return p * (low * share(3) + low * share(2) + optimizer * share(1));
}

double sent_formula_bytes(std::int64_t numel, int world, const Placement& placement, DType dtype) {
  const int reduces = placement.reduce_each ? placement.accumulate : 1;
  const bool has_parts = placement.parameter_sharded && placement.secondary_group > 0;
  const int gathers = placement.parameter_sharded && !has_parts ? 2 * placement.accumulate : 1;
  const DType reduced = placement.sums_leaves_here() ? DType::kFloat32 : dtype;
  const double element = reduces * wire_element_bytes(placement.wire.reduce, reduced) +
                         gathers * wire_element_bytes(placement.wire.gather, dtype);
  return element * static_cast<double>(numel) * (world - 1) / world + part_formula_bytes(numel, placement, dtype);
}

double part_formula_bytes(std::int64_t numel, const Placement& placement, DType dtype) {
  const int group = placement.secondary_group;
  if (!placement.parameter_sharded || group == 0) return 0;
  const double bytes = static_cast<double>(numel) * static_cast<double>(size_of(dtype));
  return (2 * placement.accumulate - 1) * bytes * (group - 1) / group;
}

double sent_between_copies_formula_bytes(std::int64_t numel, int shard, const Placement& placement) {
  const int reduces = placement.reduce_each ? placement.accumulate : 1;
  const double copies = placement.copies, element = wire_element_bytes(placement.wire.outer, DType::kFloat32);
  return reduces * 2 * element * static_cast<double>(numel) / shard * (copies - 1) / copies;
}

}  // namespace zero
