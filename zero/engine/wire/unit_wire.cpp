#include "zero/engine/wire/unit_wire.h"

#include <algorithm>

#include "zero/plan/units/mesh.h"
#include "zero/plan/units/partition.h"

namespace zero {
namespace {

bool codes_units(const WireCodecs& wire) {
  return wire.gather != WireCodec::kNone || wire.reduce != WireCodec::kNone;
}

std::int64_t largest_shard(const std::vector<Unit>& units, int shard) {
  std::int64_t largest = 0;
  for (const Unit& unit : units) largest = std::max(largest, shard_numel(unit, shard));
  return largest;
}

// Sums and their gathers have the same codec.
WireCodecs between_copies(const Placement& placement) {
  return {.gather = placement.wire.outer, .reduce = placement.wire.outer};
}

std::int64_t largest_block(const std::vector<Unit>& units, const Mesh& mesh) {
  std::int64_t largest = 0;
  for (const Unit& unit : units)
    if (unit.trainable) largest = std::max(largest, outer_block_numel(unit, mesh));
  return largest;
}

}  // namespace

std::unique_ptr<CodedCommunicator> open_unit_wire(const EngineComms& comms, const std::vector<Unit>& units,
                                                  const WireCodecs& wire, bool min_budget) {
  if (!codes_units(wire) || comms.mesh.shard == 1) return nullptr;
  std::vector<DType> types;
  for (const Unit& unit : units) types.push_back(unit.dtype);
  return std::make_unique<CodedCommunicator>(
      comms.units, wire, std::move(types),
      CodedCommunicator::Options{.largest_numel = largest_shard(units, comms.mesh.shard),
                                 .one_slot = min_budget,
                                 .contributor = comms.run.rank()});
}

std::int64_t unit_wire_bytes(const std::vector<Unit>& units, int shard, const WireCodecs& wire, bool min_budget) {
  if (!codes_units(wire)) return 0;
  return CodedCommunicator::staging_bytes(shard, wire, largest_shard(units, shard), min_budget);
}

std::unique_ptr<CodedCommunicator> open_copies_wire(const EngineComms& comms, const std::vector<Unit>& units,
                                                    const Placement& placement) {
  if (placement.copies == 1 || placement.wire.outer == WireCodec::kNone) return nullptr;
  return std::make_unique<CodedCommunicator>(
      *comms.across, between_copies(placement), std::vector<DType>(units.size(), DType::kFloat32),
      CodedCommunicator::Options{.largest_numel = largest_block(units, comms.mesh),
                                 .one_slot = true,
                                 .stochastic_gathers = true,
                                 .contributor = comms.run.rank()});
}

std::int64_t copies_wire_bytes(const std::vector<Unit>& units, int shard, const Placement& placement) {
  if (placement.copies == 1 || placement.wire.outer == WireCodec::kNone) return 0;
  const Mesh mesh{.shard = shard, .copies = placement.copies};
  return CodedCommunicator::staging_bytes(mesh.copies, between_copies(placement), largest_block(units, mesh),
                                          /*one_slot=*/true);
}

}  // namespace zero
