#include "zero/engine/outer/outer_exchange.h"

#include <algorithm>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/comm/code/block_code.h"
#include "zero/comm/code/topk_code.h"
#include "zero/engine/options/outer_fragments.h"
#include "zero/engine/outer/outer_memory.h"
#include "zero/engine/states/unit_blocks.h"
#include "zero/plan/units/mesh.h"

namespace zero {
namespace {

constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));

bool crosses_as_it_is(const WireCodecs& wire) {
  return wire.outer == WireCodec::kNone && wire.outer_topk == 0;
}

// Returns the number of messages to send: one for each copy, or with top-k one for all.
std::int64_t num_sent(const Mesh& mesh, const WireCodecs& wire) {
  return wire.outer_topk > 0 ? 1 : mesh.copies;
}

std::int64_t num_came(const Mesh& mesh, const WireCodecs& wire) {
  return crosses_as_it_is(wire) ? 0 : mesh.copies;
}

}  // namespace

std::int64_t OuterExchange::Sizes::bytes(const Mesh& mesh, const Placement& placement) const {
  const WireCodecs& wire = placement.wire;
  return (values + whole) * kFloatBytes + (num_sent(mesh, wire) + num_came(mesh, wire)) * message + largest_part;
}

OuterExchange::Sizes OuterExchange::sizes_of(const std::vector<Unit>& units, std::span<const int> fragment,
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
    sizes.largest_part = std::max(sizes.largest_part, part.bytes);
    if (!placement.optimizer_sharded && mesh.shard > 1)
      sizes.whole = std::max(sizes.whole, padded_numel(unit, mesh.shard));
  }
  return sizes;
}

std::int64_t OuterExchange::bytes(const std::vector<Unit>& units, int shard, const Placement& placement) {
  const Mesh mesh{.shard = shard, .copies = placement.merged_copies};
  std::int64_t most = 0;
  for (int fragment = 0; fragment < placement.outer_fragments; ++fragment) {
    const std::vector<int> of_it = units_of_fragment(units, placement.outer_fragments, fragment);
    most = std::max(most, sizes_of(units, of_it, mesh, placement).bytes(mesh, placement));
  }
  return most;
}

OuterExchange::OuterExchange(const ShardedState& state, const EngineComms& comms, Plan plan, Ledger& ledger,
                             Timeline* timeline)
    : state_(state),
      comms_(comms),
      plan_(std::move(plan)),
      timeline_(timeline),
      sizes_(sizes_of(state.units(), plan_.units, comms.mesh, state.placement())),
      out_{.message = sizes_.message, .copies = comms.mesh.copies, .number = (plan_.overlap + 1) / 2},
      back_{.message = sizes_.message, .copies = comms.mesh.copies, .number = std::max(plan_.overlap / 2, 1)},
      values_(outer_memory(*comms.across, sizes_.values * kFloatBytes)),
      sent_(outer_memory(*comms.across, num_sent(comms.mesh, state.placement().wire) * sizes_.message)),
      came_(outer_memory(*comms.across, num_came(comms.mesh, state.placement().wire) * sizes_.message)),
      scratch_(static_cast<std::size_t>(sizes_.largest_part)),
      whole_(outer_memory(comms.copy, sizes_.whole * kFloatBytes)),
      charge_(ledger, Tier::kDevice, MemoryTag::kStaging, sizes_.bytes(comms.mesh, state.placement())) {
  if (share() > 0) back_.number = plan_.overlap;  // with top-k it is the only exchange
}

const OuterExchange::Part& OuterExchange::part(int unit) const {
  const auto found = std::ranges::find(sizes_.parts, unit, &Part::unit);
  ZERO_CHECK(found != sizes_.parts.end(), "unit {} is not in this fragment", unit);
  return *found;
}

void OuterExchange::begin(int unit) {
  open_ = &part(unit);
  Device& device = state_.device();
  zero_floats(device, floats(values_) + open_->values, copies() * open_->block);
  if (whole_.size() > 0) zero_floats(device, floats(whole_), padded_numel(state_.unit(unit), comms_.mesh.shard));
}

float* OuterExchange::elements() {
  return whole_.size() > 0 ? floats(whole_) : floats(values_) + open_->values;
}

// Other ranks of this copy send the other shards' messages; this rank also removes their elements.
void OuterExchange::take_largest() {
  const auto numel = static_cast<std::size_t>(state_.shard(open_->unit).numel);
  const auto bytes = static_cast<std::size_t>(open_->bytes);
  for (int place = 0; place < (whole_.size() > 0 ? comms_.mesh.shard : 1); ++place) {
    const bool mine = whole_.size() == 0 || place == comms_.mesh.shard_of(comms_.run.rank());
    const std::span<std::byte> message =
        mine ? sent_.bytes().subspan(static_cast<std::size_t>(open_->message), bytes) : came_.bytes().first(bytes);
    zero::take_largest({elements() + static_cast<std::size_t>(place) * numel, numel}, share(), message);
  }
}

void OuterExchange::pack(int unit) {
  const Part& at = part(unit);
  const Shard own = state_.shard(unit);
  float* const values = floats(values_) + at.values;
  if (whole_.size() > 0) copy_floats(state_.device(), floats(whole_) + own.offset, values, own.numel);
  if (share() > 0) return;
  for (int copy = 0; copy < copies(); ++copy) {
    const auto* const block = reinterpret_cast<const std::byte*>(values + copy * at.block);
    std::span<const std::byte> bytes(block, static_cast<std::size_t>(at.bytes));
    if (!as_they_are()) {
      encode_for_wire(codec(), {block, DType::kFloat32, at.block}, {key(at, kSumKey), copy * at.block},
                      scratch_.data());
      bytes = scratch(at);
    }
    out_.put(state_.device(), sent_.data(), copy, at.message, bytes);
  }
}

// Returns the rounding key that CodedCommunicator has for a unit's first sum and gather in a step.
std::uint64_t OuterExchange::key(const Part& part, std::uint64_t kind) const {
  std::uint64_t key = mixed(kind, static_cast<std::uint64_t>(comms_.run.rank()));
  for (const std::uint64_t each :
       {static_cast<std::uint64_t>(plan_.step), static_cast<std::uint64_t>(part.unit), std::uint64_t{0}})
    key = mixed(key, each);
  return key;
}

void OuterExchange::send() {
  ZERO_CHECK(phase_ == Phase::kPacking, "a fragment is sent once");
  phase_ = share() > 0 ? Phase::kBack : Phase::kOut;
  begin_chunk();
}

// All copies have messages of the same size, and so the same chunks.
void OuterExchange::begin_chunk() {
  Communicator& across = *comms_.across;
  const CommTag tag{.unit = units().front()};
  if (phase_ == Phase::kOut) {
    const std::span<std::byte> sent = out_.of(sent_.data(), chunk_);
    if (!sent.empty()) work_ = across.all_to_all(sent, out_.of(arrived(), chunk_), tag);
    return;
  }
  const std::span<std::byte> sent = sent_.bytes().subspan(static_cast<std::size_t>(back_.begin(chunk_)),
                                                          static_cast<std::size_t>(back_.size(chunk_)));
  if (!sent.empty()) work_ = across.all_gather(sent, back_.of(arrived(), chunk_), tag);
}

void OuterExchange::go_on() {
  if (phase_ == Phase::kHere) return;
  ZERO_CHECK(phase_ != Phase::kPacking, "a fragment continues after it was sent");
  const TimedSpan span(timeline_, Activity::kReduce, units().front(), sizes_.message);
  work_.wait();
  ++chunk_;
  if (phase_ == Phase::kOut && chunk_ == out_.number) {
    comms_.across->drain();  // sums overwrite the sent messages
    for (const Part& part : sizes_.parts) sum_block(part);
    phase_ = Phase::kBack;
    chunk_ = 0;
  } else if (phase_ == Phase::kBack && chunk_ == back_.number) {
    comms_.across->drain();
    phase_ = Phase::kHere;
    return;
  }
  begin_chunk();
}

void OuterExchange::arrive() {
  while (phase_ != Phase::kHere) go_on();
}

// Sums this copy's block into the message to send back. A codec's sum takes the place of the sent differences; without
// a codec, received messages have already overwritten the differences.
void OuterExchange::sum_block(const Part& part) {
  const std::span<std::byte> own =
      sent_.bytes().subspan(static_cast<std::size_t>(part.message), static_cast<std::size_t>(part.bytes));
  float* const sum = as_they_are() ? reinterpret_cast<float*>(own.data()) : floats(values_) + part.values;
  for (int copy = 0; copy < copies(); ++copy) {
    out_.get(state_.device(), arrived(), copy, part.message, scratch(part));
    if (as_they_are()) {
      const auto* const theirs = reinterpret_cast<const float*>(scratch_.data());
      for (std::int64_t i = 0; i < part.block; ++i) sum[i] = copy == 0 ? theirs[i] : sum[i] + theirs[i];
    } else if (copy == 0) {
      decode_from_wire(codec(), scratch_.data(), part.block, reinterpret_cast<std::byte*>(sum), DType::kFloat32);
    } else {
      add_from_wire(codec(), scratch_.data(), part.block, sum);
    }
  }
  if (!as_they_are())
    encode_for_wire(codec(), {reinterpret_cast<const std::byte*>(sum), DType::kFloat32, part.block},
                    {key(part, kGatherKey), 0}, own.data());
}

const float* OuterExchange::sums(int unit) {
  ZERO_CHECK(phase_ == Phase::kHere, "the sums of unit {} have not arrived", unit);
  const Part& at = part(unit);
  const std::int64_t numel = state_.shard(unit).numel;
  // Without a codec, messages were received into the memory of the differences, and the sent messages are free.
  float* const sums = floats(as_they_are() ? sent_ : values_) + at.values;
  if (share() > 0) zero_floats(state_.device(), sums, numel);
  for (int copy = 0; copy < copies(); ++copy) {
    auto* const block = reinterpret_cast<std::byte*>(sums + copy * at.block);
    if (as_they_are()) {
      back_.get(state_.device(), arrived(), copy, at.message, {block, static_cast<std::size_t>(at.bytes)});
      continue;
    }
    back_.get(state_.device(), arrived(), copy, at.message, scratch(at));
    if (share() > 0) {
      add_largest(scratch(at), share(), {sums, static_cast<std::size_t>(numel)});
    } else {
      decode_from_wire(codec(), scratch_.data(), at.block, block, DType::kFloat32);
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
