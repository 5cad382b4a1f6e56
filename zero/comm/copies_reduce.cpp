#include "zero/comm/copies_reduce.h"

#include <algorithm>
#include <memory>

#include "zero/base/check.h"
#include "zero/comm/rank_sum.h"

namespace zero {
namespace {

// What `total` holds becomes the request's sum, with its statistics.
void put_total(std::span<const float> total, const ReduceScatter& request) {
  if (request.stats != nullptr) *request.stats = {};
  const std::byte* const in[] = {reinterpret_cast<const std::byte*>(total.data())};
  sum_ranks({.in = in,
             .out = request.out.data(),
             .out_dtype = request.out_dtype,
             .numel = std::ssize(total),
             .accumulate = request.accumulate},
            request.stats);
}

class ReduceOverCopies final : public Work::Operation {
 public:
  ReduceOverCopies(Communicator& copy, Communicator& across, const ReduceScatter& request, std::span<float> partial,
                   CommTag tag)
      : across_(across), request_(request), partial_(partial), tag_(tag) {
    const std::span<std::byte> block = std::as_writable_bytes(partial);
    const bool first = across.rank() == 0;
    if (!first) from_below_ = across.receive(block, across.rank() - 1, tag);
    ReduceScatter own{.in = request.in, .dtype = request.dtype, .out = block};
    if (!first) own.onto = block;
    sum_ = copy.reduce_scatter(own, tag);
  }

  void wait() override {
    const std::span<std::byte> block = std::as_writable_bytes(partial_);
    const int above = across_.rank() + 1, below = across_.rank() - 1;
    from_below_.wait();
    sum_.wait();
    if (above < across_.world()) {
      across_.send(block, above, tag_).wait();
      across_.drain();  // the total comes into the same block
      across_.receive(block, above, tag_).wait();
    }
    if (below >= 0) across_.send(block, below, tag_).wait();
    put_total(partial_, request_);
    if (below >= 0) across_.drain();
  }

 private:
  Communicator& across_;
  ReduceScatter request_;
  std::span<float> partial_;
  CommTag tag_;
  Work from_below_, sum_;
};

class ReduceInBlocks final : public Work::Operation {
 public:
  ReduceInBlocks(Communicator& copy, Communicator& across, const ReduceScatter& request, std::span<float> blocks,
                 CommTag tag)
      : across_(across), request_(request), blocks_(blocks), tag_(tag) {
    const ReduceScatter own{.in = request.in, .dtype = request.dtype, .out = std::as_writable_bytes(shard())};
    sum_ = copy.reduce_scatter(own, tag);
  }

  void wait() override {
    sum_.wait();
    std::ranges::fill(blocks_.subspan(shard().size()), 0.0F);
    const std::span<std::byte> all = std::as_writable_bytes(blocks_);
    const std::size_t block = all.size() / static_cast<std::size_t>(across_.world());
    const std::span<std::byte> mine = all.subspan(static_cast<std::size_t>(across_.rank()) * block, block);
    CommTag between = tag_;
    between.blocks = {};  // those of a copy's shards: here all blocks are equal
    across_.reduce_scatter({.in = all, .out = mine}, between).wait();
    across_.drain();  // the others' blocks come in place of what they read
    across_.all_gather(mine, all, between).wait();
    put_total(shard(), request_);
    across_.drain();
  }

 private:
  std::span<float> shard() const { return blocks_.first(request_.out.size() / size_of(request_.out_dtype)); }

  Communicator& across_;
  ReduceScatter request_;
  std::span<float> blocks_;
  CommTag tag_;
  Work sum_;
};

}  // namespace

Work reduce_in_blocks_over_copies(Communicator& copy, Communicator& across, const ReduceScatter& request,
                                  std::span<float> blocks, CommTag tag) {
  request.check(copy.world(), copy.rank(), tag.blocks);
  ZERO_CHECK(blocks.size() % static_cast<std::size_t>(across.world()) == 0 &&
                 blocks.size() * size_of(request.out_dtype) >= request.out.size(),
             "{} elements are summed in {}, in blocks for {} copies", request.out.size() / size_of(request.out_dtype),
             blocks.size(), across.world());
  return Work(std::make_unique<ReduceInBlocks>(copy, across, request, blocks, tag));
}

Work reduce_over_copies(Communicator& copy, Communicator& across, const ReduceScatter& request,
                        std::span<float> partial, CommTag tag) {
  request.check(copy.world(), copy.rank(), tag.blocks);
  ZERO_CHECK(partial.size() * size_of(request.out_dtype) == request.out.size(),
             "a block of {} elements is summed in {}", request.out.size() / size_of(request.out_dtype), partial.size());
  if (across.world() == 1) return copy.reduce_scatter(request, tag);
  return Work(std::make_unique<ReduceOverCopies>(copy, across, request, partial, tag));
}

}  // namespace zero
