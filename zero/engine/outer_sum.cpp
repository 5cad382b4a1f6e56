#include "zero/engine/outer_sum.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "zero/plan/mesh.h"

namespace zero {
namespace {

constexpr std::size_t kSumBytes = sizeof(float);

// Of the largest unit: what is exchanged over the copies, and the whole range where that is updated.
struct OuterNumel {
  std::int64_t exchanged = 0, whole = 0;
};

WireCodecs codecs_of(const Placement& placement) {
  return {.gather = placement.wire.outer, .reduce = placement.wire.outer};
}

std::int64_t bytes_of(const OuterNumel& numel, const Mesh& mesh, const Placement& placement) {
  const std::int64_t sums = (numel.exchanged + numel.whole) * static_cast<std::int64_t>(kSumBytes);
  return placement.wire.outer == WireCodec::kNone
             ? sums
             : sums + CodedCommunicator::staging_bytes(mesh.copies, codecs_of(placement), numel.exchanged / mesh.copies,
                                                       /*one_slot=*/true);
}

OuterNumel numel_of(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement) {
  OuterNumel numel;
  for (const Unit& unit : units) {
    if (!unit.trainable) continue;
    numel.exchanged = std::max(numel.exchanged, mesh.copies * outer_block_numel(unit, mesh));
    if (!placement.optimizer_sharded && mesh.shard > 1)
      numel.whole = std::max(numel.whole, padded_numel(unit, mesh.shard));
  }
  return numel;
}

Allocation sums_of(Communicator& comm, std::int64_t numel) {
  return numel == 0 ? Allocation() : comm.allocate(static_cast<std::size_t>(numel) * kSumBytes);
}

}  // namespace

std::int64_t OuterSum::bytes(const std::vector<Unit>& units, int shard, const Placement& placement) {
  if (placement.merged_copies == 1) return 0;
  const Mesh mesh{.shard = shard, .copies = placement.merged_copies};
  return bytes_of(numel_of(units, mesh, placement), mesh, placement);
}

OuterSum::OuterSum(const ShardedState& state, const EngineComms& comms, std::int64_t step, Ledger& ledger,
                   Timeline* timeline)
    : state_(state), comms_(comms), timeline_(timeline) {
  const OuterNumel numel = numel_of(state.units(), comms.mesh, state.placement());
  exchanged_ = sums_of(*comms.across, numel.exchanged);
  whole_ = sums_of(comms.copy, numel.whole);
  charge_ = Charge(ledger, Tier::kDevice, MemoryTag::kStaging, bytes_of(numel, comms.mesh, state.placement()));
  if (state.placement().wire.outer == WireCodec::kNone) return;
  coded_ = std::make_unique<CodedCommunicator>(
      *comms.across, codecs_of(state.placement()), std::vector<DType>(state.units().size(), DType::kFloat32),
      CodedCommunicator::Options{.largest_numel = numel.exchanged / comms.mesh.copies,
                                 .one_slot = true,
                                 .stochastic_gathers = true,
                                 .contributor = comms.run.rank()});
  coded_->begin_step(step);
}

void OuterSum::begin(int unit) {
  const std::int64_t exchanged = comms_.mesh.copies * outer_block_numel(state_.unit(unit), comms_.mesh);
  std::fill_n(floats(exchanged_), exchanged, 0.0F);
  if (whole_.size() > 0) std::fill_n(floats(whole_), padded_numel(state_.unit(unit), comms_.mesh.shard), 0.0F);
}

void OuterSum::add(int unit) {
  Communicator& across = coded_ != nullptr ? *coded_ : *comms_.across;
  const Shard own = state_.shard(unit);
  const auto shard_bytes = static_cast<std::size_t>(own.numel) * kSumBytes;
  const std::size_t block = static_cast<std::size_t>(outer_block_numel(state_.unit(unit), comms_.mesh)) * kSumBytes;
  const TimedSpan span(timeline_, Activity::kReduce, unit, own.numel * static_cast<std::int64_t>(kSumBytes));
  if (whole_.size() > 0) std::memcpy(exchanged_.data(), floats(whole_) + own.offset, shard_bytes);
  const std::span<std::byte> all = exchanged_.bytes().first(static_cast<std::size_t>(comms_.mesh.copies) * block);
  const std::span<std::byte> mine = all.subspan(static_cast<std::size_t>(across.rank()) * block, block);
  across.reduce_scatter({.in = all, .out = mine}, {.unit = unit}).wait();
  across.drain();  // the others' blocks come in place of what they read
  across.all_gather(mine, all, {.unit = unit}).wait();
  across.drain();
  if (whole_.size() == 0) return;
  const auto whole_bytes = shard_bytes * static_cast<std::size_t>(comms_.mesh.shard);
  comms_.copy.all_gather(all.first(shard_bytes), whole_.bytes().first(whole_bytes), {.unit = unit}).wait();
  comms_.copy.drain();
}

}  // namespace zero
