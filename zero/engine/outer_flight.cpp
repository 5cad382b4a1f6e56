#include "zero/engine/outer_flight.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "zero/base/check.h"
#include "zero/comm/block_code.h"
#include "zero/comm/rank_sum.h"
#include "zero/comm/topk_code.h"
#include "zero/engine/outer_fragments.h"
#include "zero/engine/outer_memory.h"
#include "zero/engine/unit_blocks.h"
#include "zero/plan/mesh.h"

namespace zero {
namespace {

constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));

bool crosses_as_it_is(const WireCodecs& wire) {
  return wire.outer == WireCodec::kNone && wire.outer_topk == 0;
}

// Messages that go out: one for each copy, or with top-k the same one for all.
std::int64_t num_sent(const Mesh& mesh, const WireCodecs& wire) {
  return wire.outer_topk > 0 ? 1 : mesh.copies;
}

std::int64_t num_came(const Mesh& mesh, const WireCodecs& wire) {
  return crosses_as_it_is(wire) ? 0 : mesh.copies;
}

}  // namespace

std::int64_t OuterFlight::Sizes::bytes(const Mesh& mesh, const Placement& placement) const {
  const WireCodecs& wire = placement.wire;
  return (values + whole) * kFloatBytes + (num_sent(mesh, wire) + num_came(mesh, wire)) * message;
}

OuterFlight::Sizes OuterFlight::sizes_of(const std::vector<Unit>& units, std::span<const int> fragment,
                                         const Mesh& mesh, const Placement& placement) {
  const WireCodecs& wire = placement.wire;
  Sizes sizes;
  for (const int index : fragment) {
    const Unit& unit = units[static_cast<std::size_t>(index)];
    const std::int64_t block = outer_block_numel(unit, mesh);
    const Part part{.unit = index,
                    .block = block,
                    .values = sizes.values,
                    .message = sizes.message,
                    .bytes = wire.outer_topk > 0 ? topk_bytes(shard_numel(unit, mesh.shard), wire.outer_topk)
                                                 : wire_bytes(wire.outer, block, DType::kFloat32)};
    sizes.parts.push_back(part);
    sizes.values += mesh.copies * block;
    sizes.message += part.bytes;
    if (!placement.optimizer_sharded && mesh.shard > 1)
      sizes.whole = std::max(sizes.whole, padded_numel(unit, mesh.shard));
  }
  return sizes;
}

std::int64_t OuterFlight::bytes(const std::vector<Unit>& units, int shard, const Placement& placement) {
  const Mesh mesh{.shard = shard, .copies = placement.merged_copies};
  std::int64_t most = 0;
  for (int fragment = 0; fragment < placement.outer_fragments; ++fragment) {
    const std::vector<int> of_it = units_of_fragment(units, placement.outer_fragments, fragment);
    most = std::max(most, sizes_of(units, of_it, mesh, placement).bytes(mesh, placement));
  }
  return most;
}

OuterFlight::OuterFlight(const ShardedState& state, const EngineComms& comms, std::vector<int> units, std::int64_t step,
                         Ledger& ledger, Timeline* timeline)
    : state_(state),
      comms_(comms),
      units_(std::move(units)),
      step_(step),
      timeline_(timeline),
      sizes_(sizes_of(state.units(), units_, comms.mesh, state.placement())),
      values_(outer_memory(*comms.across, sizes_.values * kFloatBytes)),
      sent_(outer_memory(*comms.across, num_sent(comms.mesh, state.placement().wire) * sizes_.message)),
      came_(outer_memory(*comms.across, num_came(comms.mesh, state.placement().wire) * sizes_.message)),
      whole_(outer_memory(comms.copy, sizes_.whole * kFloatBytes)),
      charge_(ledger, Tier::kDevice, MemoryTag::kStaging, sizes_.bytes(comms.mesh, state.placement())) {}

const OuterFlight::Part& OuterFlight::part(int unit) const {
  const auto found = std::ranges::find(sizes_.parts, unit, &Part::unit);
  ZERO_CHECK(found != sizes_.parts.end(), "unit {} is not in this fragment", unit);
  return *found;
}

void OuterFlight::begin(int unit) {
  open_ = &part(unit);
  std::fill_n(floats(values_) + open_->values, copies() * open_->block, 0.0F);
  if (whole_.size() > 0) std::fill_n(floats(whole_), padded_numel(state_.unit(unit), comms_.mesh.shard), 0.0F);
}

float* OuterFlight::elements() {
  return whole_.size() > 0 ? floats(whole_) : floats(values_) + open_->values;
}

// Other ranks of this copy send the other shards' messages; what these take is left out all the same.
void OuterFlight::take_largest() {
  const auto numel = static_cast<std::size_t>(state_.shard(open_->unit).numel);
  const auto bytes = static_cast<std::size_t>(open_->bytes);
  for (int place = 0; place < (whole_.size() > 0 ? comms_.mesh.shard : 1); ++place) {
    const bool mine = whole_.size() == 0 || place == comms_.mesh.shard_of(comms_.run.rank());
    const std::span<std::byte> message =
        mine ? sent_.bytes().subspan(static_cast<std::size_t>(open_->message), bytes) : came_.bytes().first(bytes);
    zero::take_largest({elements() + static_cast<std::size_t>(place) * numel, numel}, share(), message);
  }
}

void OuterFlight::pack(int unit) {
  const Part& at = part(unit);
  const Shard own = state_.shard(unit);
  float* const values = floats(values_) + at.values;
  if (whole_.size() > 0) std::copy_n(floats(whole_) + own.offset, own.numel, values);
  if (share() > 0) return;
  for (int copy = 0; copy < copies(); ++copy) {
    const float* const block = values + copy * at.block;
    std::byte* const message = message_of(sent_.data(), copy, at);
    if (as_they_are()) {
      std::memcpy(message, block, static_cast<std::size_t>(at.bytes));
    } else {
      encode_for_wire(codec(), {reinterpret_cast<const std::byte*>(block), DType::kFloat32, at.block},
                      {key(at, kSumKey), copy * at.block}, message);
    }
  }
}

std::byte* OuterFlight::message_of(std::byte* messages, int copy, const Part& part) const {
  return messages + copy * sizes_.message + part.message;
}

// As CodedCommunicator's of a unit's first sum and gather in a step.
std::uint64_t OuterFlight::key(const Part& part, std::uint64_t kind) const {
  std::uint64_t key = mixed(kind, static_cast<std::uint64_t>(comms_.run.rank()));
  for (const std::uint64_t each :
       {static_cast<std::uint64_t>(step_), static_cast<std::uint64_t>(part.unit), std::uint64_t{0}})
    key = mixed(key, each);
  return key;
}

void OuterFlight::send() {
  ZERO_CHECK(phase_ == Phase::kPacking, "a fragment is sent once");
  Communicator& across = *comms_.across;
  const CommTag tag{.unit = units_.front()};
  work_ = share() > 0 ? across.all_gather(sent_.bytes(), came_.bytes(), tag)
                      : across.all_to_all(sent_.bytes(), {arrived(), sent_.size()}, tag);
  phase_ = share() > 0 ? Phase::kBack : Phase::kOut;
}

void OuterFlight::turn() {
  if (phase_ != Phase::kOut) return;
  const TimedSpan span(timeline_, Activity::kReduce, units_.front(), sizes_.message);
  Communicator& across = *comms_.across;
  work_.wait();
  across.drain();
  for (const Part& part : sizes_.parts) sum_block(part);
  work_ = across.all_gather(sent_.bytes().first(static_cast<std::size_t>(sizes_.message)), {arrived(), sent_.size()},
                            {.unit = units_.front()});
  phase_ = Phase::kBack;
}

// Of this copy's block: into the message that goes back.
void OuterFlight::sum_block(const Part& part) {
  std::vector<const std::byte*> in;
  for (int copy = 0; copy < copies(); ++copy) in.push_back(message_of(arrived(), copy, part));
  std::byte* const out = sent_.data() + part.message;
  if (as_they_are()) {
    sum_ranks({.in = in, .out = out, .numel = part.block}, nullptr);
    return;
  }
  float* const sum = floats(values_) + part.values;  // the differences have gone out
  decode_from_wire(codec(), in.front(), part.block, reinterpret_cast<std::byte*>(sum), DType::kFloat32);
  for (std::size_t copy = 1; copy < in.size(); ++copy) add_from_wire(codec(), in[copy], part.block, sum);
  encode_for_wire(codec(), {reinterpret_cast<const std::byte*>(sum), DType::kFloat32, part.block},
                  {key(part, kGatherKey), 0}, out);
}

void OuterFlight::arrive() {
  turn();
  ZERO_CHECK(phase_ == Phase::kBack, "a fragment arrives once, when it was sent");
  const TimedSpan span(timeline_, Activity::kReduce, units_.front(), sizes_.message);
  work_.wait();
  comms_.across->drain();
  phase_ = Phase::kHere;
}

const float* OuterFlight::sums(int unit) {
  ZERO_CHECK(phase_ == Phase::kHere, "the sums of unit {} are not here", unit);
  const Part& at = part(unit);
  const std::int64_t numel = state_.shard(unit).numel;
  // What crossed as it is came in place of the differences; its messages are free.
  float* const sums = floats(as_they_are() ? sent_ : values_) + at.values;
  if (share() > 0) std::fill_n(sums, numel, 0.0F);
  for (int copy = 0; copy < copies(); ++copy) {
    const std::byte* const message = message_of(arrived(), copy, at);
    float* const block = sums + copy * at.block;
    if (share() > 0) {
      add_largest({message, static_cast<std::size_t>(at.bytes)}, share(), {sums, static_cast<std::size_t>(numel)});
    } else if (as_they_are()) {
      std::memcpy(block, message, static_cast<std::size_t>(at.bytes));
    } else {
      decode_from_wire(codec(), message, at.block, reinterpret_cast<std::byte*>(block), DType::kFloat32);
    }
  }
  if (whole_.size() == 0) return sums;
  const Unit& description = state_.unit(unit);
  const auto bytes = [](std::int64_t elements) { return static_cast<std::size_t>(elements * kFloatBytes); };
  comms_.copy
      .all_gather({reinterpret_cast<const std::byte*>(sums), bytes(numel)},
                  whole_.bytes().first(bytes(padded_numel(description, comms_.mesh.shard))),
                  {.unit = unit, .blocks = unit_blocks(description, sizeof(float))})
      .wait();
  comms_.copy.drain();
  return floats(whole_);
}

}  // namespace zero
