#include "zero/engine/reduce/gradient_sum.h"

#include <algorithm>

#include "zero/plan/units/mesh.h"
#include "zero/plan/units/partition.h"

namespace zero {

GradientSum::Blocks GradientSum::blocks_of(const std::vector<Unit>& units, int shard, const Placement& placement,
                                           bool min_budget) {
  Blocks blocks;
  if (placement.copies == 1) return blocks;
  const Mesh mesh{.shard = shard, .copies = placement.copies};
  const bool coded = placement.wire.outer != WireCodec::kNone;
  for (const Unit& unit : units) {
    if (!unit.trainable) continue;
    blocks.numel =
        std::max(blocks.numel, coded ? mesh.copies * outer_block_numel(unit, mesh) : shard_numel(unit, shard));
  }
  blocks.count = min_budget ? 1 : 2;
  return blocks;
}

GradientSum::GradientSum(Communicator& copy, Copies copies, Blocks blocks, Ledger& ledger, Tier tier)
    : copy_(copy), copies_(copies), partial_(copies.across == nullptr ? 0 : blocks.count) {
  const std::int64_t bytes = blocks.numel * static_cast<std::int64_t>(sizeof(float));
  if (copies.across != nullptr) chain_.emplace(copy, *copies.across);
  for (Block& block : partial_) {
    block.memory = copy.allocate(static_cast<std::size_t>(bytes));
    block.charge = Charge(ledger, tier, MemoryTag::kStaging, bytes);
  }
}

Work GradientSum::begin(const ReduceScatter& request, CommTag tag) {
  if (copies_.across == nullptr) return copy_.reduce_scatter(request, tag);
  const std::span<std::byte> memory = partial_[next_++ % partial_.size()].memory.bytes();
  auto* const block = reinterpret_cast<float*>(memory.data());
  const std::size_t numel = request.out.size() / size_of(request.out_dtype);
  Communicator& across = *copies_.across;
  if (!copies_.coded) return chain_->begin(request, {block, numel}, tag);
  const auto copies = static_cast<std::size_t>(across.world());
  return reduce_in_blocks_over_copies(copy_, across, request, {block, (numel + copies - 1) / copies * copies}, tag);
}

}  // namespace zero
