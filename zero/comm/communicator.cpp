// Defaults of Communicator, for transports that have nothing better.
#include "zero/comm/communicator.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "zero/base/error/check.h"
#include "zero/base/process/pages.h"
#include "zero/comm/rank_sum.h"

namespace zero {
namespace {

// Bytes of staging of a reduction in tiles: for sent tiles, and again for received tiles.
constexpr std::int64_t kStagingBytes = std::int64_t{2} << 20;

// A reduce_scatter as an all_to_all in tiles of whole blocks of statistics, each followed by its sum.
class TiledReduceScatter final : public Work::Operation {
 public:
  TiledReduceScatter(Communicator& comm, const ReduceScatter& request, CommTag tag)
      : comm_(comm), request_(request), tag_(tag), world_(comm.world()) {
    const std::int64_t width = size_of(request.dtype);
    for (int r = 0; r < world_; ++r) most_ = std::max(most_, block(r).numel);
    numel_ = block(comm.rank()).numel;
    tile_ = std::max<std::int64_t>(kStagingBytes / world_ / width / kStatsBlock, 1) * kStatsBlock;
    tile_ = std::min(tile_, most_);
    received_.resize(static_cast<std::size_t>(std::min(tile_, numel_) * width * world_));
    if (tile_ < most_) packed_.resize(static_cast<std::size_t>(tile_ * width * world_));
    exchange_ = begin_tile(0);
  }

  void wait() override {
    if (request_.stats != nullptr) *request_.stats = {};
    for (std::int64_t first = 0; first < most_ || first == 0; first += tile_) {
      exchange_.wait();
      sum_tile(first);
      if (first + tile_ >= most_) break;
      comm_.drain();  // packed_ is overwritten
      exchange_ = begin_tile(first + tile_);
    }
    if (!packed_.empty()) comm_.drain();
  }

 private:
  // A rank's block of the input, in elements.
  struct Block {
    std::int64_t begin = 0, numel = 0;
  };
  Block block(int r) const {
    const std::size_t width = size_of(request_.dtype), all = request_.in.size();
    return {static_cast<std::int64_t>(tag_.blocks.offset(r, world_, all) / width),
            static_cast<std::int64_t>(tag_.blocks.size(r, world_, all) / width)};
  }
  // Returns the elements of a tile in a block of `numel` elements; 0 if the block has ended before.
  std::int64_t numel_of_tile(std::int64_t first, std::int64_t numel) const {
    return std::clamp<std::int64_t>(numel - first, 0, tile_);
  }

  Work begin_tile(std::int64_t first) {
    const std::size_t width = size_of(request_.dtype);
    const std::span<std::byte> out(received_.data(), numel_of_tile(first, numel_) * width * world_);
    if (packed_.empty()) return comm_.all_to_all(request_.in, out, tag_);
    bounds_.assign(1, 0);
    for (int r = 0; r < world_; ++r) {
      const auto [begin, all] = block(r);
      const std::int64_t numel = numel_of_tile(first, all);
      if (numel > 0)
        std::memcpy(packed_.data() + bounds_.back() * width, request_.in.data() + (begin + first) * width,
                    numel * width);
      bounds_.push_back(bounds_.back() + numel);
    }
    CommTag tag = tag_;
    tag.blocks = tag_.blocks.equal() ? Blocks{} : Blocks{bounds_, width};
    return comm_.all_to_all(std::span(packed_.data(), bounds_.back() * width), out, tag);
  }

  void sum_tile(std::int64_t first) {
    const std::int64_t numel = numel_of_tile(first, numel_);
    if (numel == 0 && numel_ > 0) return;
    std::vector<const std::byte*> in(world_);
    for (int r = 0; r < world_; ++r) in[r] = received_.data() + r * numel * size_of(request_.dtype);
    sum_ranks({.in = in,
               .dtype = request_.dtype,
               .out = request_.out.data() + first * size_of(request_.out_dtype),
               .out_dtype = request_.out_dtype,
               .numel = numel,
               .accumulate = request_.accumulate,
               .onto = request_.onto.empty() ? nullptr : reinterpret_cast<const float*>(request_.onto.data()) + first,
               .merges = request_.merges},
              request_.stats);
  }

  Communicator& comm_;
  ReduceScatter request_;
  CommTag tag_;
  int world_;
  std::int64_t numel_ = 0;            // elements of this rank's block
  std::int64_t most_ = 0;             // elements of the largest block
  std::int64_t tile_ = 0;             // elements of a block in one exchange
  std::vector<std::int64_t> bounds_;  // bounds of the blocks' parts in this exchange
  std::vector<std::byte> packed_, received_;
  Work exchange_;
};

}  // namespace

void ReduceScatter::check(int world, int rank, const Blocks& blocks) const {
  const std::size_t width = size_of(dtype);
  const bool fits = blocks.equal() ? in.size() % (width * static_cast<std::size_t>(world)) == 0
                                   : blocks.width == width && blocks.fit(world, in.size());
  ZERO_CHECK(fits, "{} bytes are not {} blocks of {}", in.size(), world, name_of(dtype));
  const std::size_t numel = blocks.size(rank, world, in.size()) / width;
  ZERO_CHECK(out.size() == numel * size_of(out_dtype), "a block of {} bytes of {} goes into {} bytes of {}",
             numel * width, name_of(dtype), out.size(), name_of(out_dtype));
  ZERO_CHECK(onto.empty() || onto.size() == numel * sizeof(float), "a sum of {} bytes begins with {}", in.size(),
             onto.size());
  ZERO_CHECK(!accumulate || out_dtype == DType::kFloat32, "only fp32 accumulates");
  ZERO_CHECK(merges.empty() || (merges.size() == static_cast<std::size_t>(world) && onto.empty()),
             "a sum over {} ranks in a tree of {}", world, merges.size());
}

Work Communicator::reduce_scatter(const ReduceScatter& request, CommTag tag) {
  request.check(world(), rank(), tag.blocks);
  return Work(std::make_unique<TiledReduceScatter>(*this, request, tag));
}

Allocation Communicator::allocate(std::size_t bytes, Written /*written*/) {
  if (bytes == 0) return {};
  Allocation pages = map_private(bytes);
  if (!pages) throw std::bad_alloc();
  return pages;
}

}  // namespace zero
