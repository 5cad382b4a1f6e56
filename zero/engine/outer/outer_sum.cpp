#include "zero/engine/outer/outer_sum.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "zero/comm/code/topk_code.h"
#include "zero/engine/outer/outer_memory.h"
#include "zero/engine/states/unit_blocks.h"
#include "zero/plan/units/mesh.h"

namespace zero {
namespace {

constexpr std::size_t kSumBytes = sizeof(float);

// For the largest unit: elements exchanged over the copies, elements of the whole range if it is updated, bytes of
// messages.
struct OuterNumel {
  std::int64_t exchanged = 0, whole = 0, message_bytes = 0;
};

WireCodecs codecs_of(const Placement& placement) {
  return {.gather = placement.wire.outer, .reduce = placement.wire.outer};
}

std::int64_t bytes_of(const OuterNumel& numel, const Mesh& mesh, const Placement& placement) {
  const std::int64_t sums =
      (numel.exchanged + numel.whole) * static_cast<std::int64_t>(kSumBytes) + numel.message_bytes;
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
    if (const double share = placement.wire.outer_topk; share > 0)
      numel.message_bytes =
          std::max(numel.message_bytes, (1 + mesh.copies) * topk_bytes(shard_numel(unit, mesh.shard), share));
  }
  return numel;
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
  constexpr auto kElementBytes = static_cast<std::int64_t>(kSumBytes);
  exchanged_ = outer_memory(*comms.across, numel.exchanged * kElementBytes);
  messages_ = outer_memory(*comms.across, numel.message_bytes);
  whole_ = outer_memory(comms.copy, numel.whole * kElementBytes);
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
  zero_floats(state_.device(), floats(exchanged_), exchanged);
  if (whole_.size() > 0)
    zero_floats(state_.device(), floats(whole_), padded_numel(state_.unit(unit), comms_.mesh.shard));
}

float* OuterSum::elements() const {
  return floats(whole_.size() > 0 ? whole_ : exchanged_);
}

std::size_t OuterSum::message_bytes(int unit) const {
  return static_cast<std::size_t>(topk_bytes(state_.shard(unit).numel, state_.placement().wire.outer_topk));
}

void OuterSum::take_largest(int unit) {
  const Shard own = state_.shard(unit);
  const std::size_t bytes = message_bytes(unit);
  const auto numel = static_cast<std::size_t>(own.numel);
  for (int place = 0; place < (whole_.size() > 0 ? comms_.mesh.shard : 1); ++place) {
    const bool mine = whole_.size() == 0 || place == comms_.mesh.shard_of(comms_.run.rank());
    // Other ranks of this copy send the other shards' messages.
    zero::take_largest({elements() + static_cast<std::size_t>(place) * numel, numel},
                       state_.placement().wire.outer_topk, messages_.bytes().subspan(mine ? 0 : bytes, bytes));
  }
}

void OuterSum::add(int unit) {
  const std::int64_t numel = state_.shard(unit).numel;
  const TimedSpan span(timeline_, Activity::kReduce, unit, numel * static_cast<std::int64_t>(kSumBytes));
  messages_.size() > 0 ? add_messages(unit) : add_blocks(unit);
  if (whole_.size() == 0) return;
  const auto shard_bytes = static_cast<std::size_t>(numel) * kSumBytes;
  const Unit& description = state_.unit(unit);
  const auto whole_bytes = static_cast<std::size_t>(padded_numel(description, comms_.mesh.shard)) * kSumBytes;
  comms_.copy
      .all_gather(exchanged_.bytes().first(shard_bytes), whole_.bytes().first(whole_bytes),
                  {.unit = unit, .blocks = unit_blocks(description, kSumBytes)})
      .wait();
  comms_.copy.drain();
}

void OuterSum::add_messages(int unit) {
  Communicator& across = *comms_.across;
  const std::size_t bytes = message_bytes(unit), copies = static_cast<std::size_t>(across.world());
  const std::span<std::byte> all = messages_.bytes().subspan(bytes, copies * bytes);
  across.all_gather(messages_.bytes().first(bytes), all, {.unit = unit}).wait();
  across.drain();
  const std::span<float> sum(floats(exchanged_), static_cast<std::size_t>(state_.shard(unit).numel));
  zero_floats(state_.device(), sum.data(), state_.shard(unit).numel);
  for (std::size_t copy = 0; copy < copies; ++copy)
    add_largest(all.subspan(copy * bytes, bytes), state_.placement().wire.outer_topk, sum);
}

void OuterSum::add_blocks(int unit) {
  Communicator& across = coded_ != nullptr ? *coded_ : *comms_.across;
  const Shard own = state_.shard(unit);
  const std::size_t block = static_cast<std::size_t>(outer_block_numel(state_.unit(unit), comms_.mesh)) * kSumBytes;
  if (whole_.size() > 0) copy_floats(state_.device(), floats(whole_) + own.offset, floats(exchanged_), own.numel);
  const std::span<std::byte> all = exchanged_.bytes().first(static_cast<std::size_t>(comms_.mesh.copies) * block);
  const std::span<std::byte> mine = all.subspan(static_cast<std::size_t>(across.rank()) * block, block);
  across.reduce_scatter({.in = all, .out = mine}, {.unit = unit}).wait();
  across.drain();  // the other blocks overwrite memory that peers read
  across.all_gather(mine, all, {.unit = unit}).wait();
  across.drain();
}

}  // namespace zero
