#include "zero/engine/gradient_sum.h"

#include <algorithm>

#include "zero/comm/copies_reduce.h"
#include "zero/plan/partition.h"

namespace zero {

GradientSum::Blocks GradientSum::blocks_of(const std::vector<Unit>& units, int shard, int copies, bool min_budget) {
  Blocks blocks;
  if (copies == 1) return blocks;
  for (const Unit& unit : units)
    if (unit.trainable) blocks.numel = std::max(blocks.numel, shard_numel(unit, shard));
  blocks.count = min_budget ? 1 : 2;
  return blocks;
}

GradientSum::GradientSum(Communicator& copy, Communicator* across, Blocks blocks, Ledger& ledger)
    : copy_(copy), across_(across), partial_(across == nullptr ? 0 : blocks.count) {
  const std::int64_t bytes = blocks.numel * static_cast<std::int64_t>(sizeof(float));
  for (Block& block : partial_) {
    block.memory = copy.allocate(static_cast<std::size_t>(bytes));
    block.charge = Charge(ledger, Tier::kDevice, MemoryTag::kStaging, bytes);
  }
}

Work GradientSum::begin(const ReduceScatter& request, CommTag tag) {
  if (across_ == nullptr) return copy_.reduce_scatter(request, tag);
  const std::span<std::byte> block = partial_[next_++ % partial_.size()].memory.bytes();
  const std::span<float> partial{reinterpret_cast<float*>(block.data()),
                                 request.out.size() / size_of(request.out_dtype)};
  return reduce_over_copies(copy_, *across_, request, partial, tag);
}

}  // namespace zero
