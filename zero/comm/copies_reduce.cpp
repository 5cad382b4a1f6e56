#include "zero/comm/copies_reduce.h"

#include <algorithm>
#include <memory>
#include <utility>

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

// ---- the chain ----------------------------------------------------------------------------------------------------

class SumOverCopies::Chained final : public Work::Operation {
 public:
  Chained(SumOverCopies& chain, const ReduceScatter& request, std::span<float> partial, CommTag tag)
      : chain_(chain), across_(chain.across_), request_(request), partial_(partial), tag_(tag) {
    if (!is_first()) from_below_ = across_.receive(block(), across_.rank() - 1, tag);
    ReduceScatter own{.in = request.in, .dtype = request.dtype, .out = block()};
    if (!is_first()) own.onto = block();
    sum_ = chain.copy_.reduce_scatter(own, tag);
    chain_.under_way_.push_back(this);
  }
  ~Chained() override { std::erase(chain_.under_way_, this); }
  Chained(const Chained&) = delete;
  Chained& operator=(const Chained&) = delete;

  void wait() override {
    ZERO_CHECK(chain_.under_way_.front() == this, "a sum over copies is waited for before one that began earlier");
    pass_up();
    if (!is_last()) {
      across_.drain();  // the total comes into the same block
      Work total = across_.receive(block(), across_.rank() + 1, tag_);
      // One sum ahead and no more: drain() waits until those above have read what was passed up, each in its turn.
      if (chain_.under_way_.size() > 1) chain_.under_way_[1]->pass_up();
      total.wait();
    }
    if (!is_first()) across_.send(block(), across_.rank() - 1, tag_).wait();
    put_total(partial_, request_);
    if (!is_first()) across_.drain();
  }

  // The sum of the copies up to this one is complete, and on its way to the next.
  void pass_up() {
    if (std::exchange(is_passed_up_, true)) return;
    from_below_.wait();
    sum_.wait();
    if (!is_last()) across_.send(block(), across_.rank() + 1, tag_).wait();
  }

  bool is_first() const { return across_.rank() == 0; }

 private:
  bool is_last() const { return across_.rank() + 1 == across_.world(); }
  std::span<std::byte> block() const { return std::as_writable_bytes(partial_); }

  SumOverCopies& chain_;
  Communicator& across_;
  ReduceScatter request_;
  std::span<float> partial_;
  CommTag tag_;
  Work from_below_, sum_;
  bool is_passed_up_ = false;
};

SumOverCopies::SumOverCopies(Communicator& copy, Communicator& across) : copy_(copy), across_(across) {}

Work SumOverCopies::begin(const ReduceScatter& request, std::span<float> partial, CommTag tag) {
  request.check(copy_.world(), copy_.rank(), tag.blocks);
  ZERO_CHECK(partial.size() * size_of(request.out_dtype) == request.out.size(),
             "a block of {} elements is summed in {}", request.out.size() / size_of(request.out_dtype), partial.size());
  if (across_.world() == 1) return copy_.reduce_scatter(request, tag);
  // The first copy waits for nobody below: its sum travels while this rank computes.
  if (under_way_.size() == 1 && under_way_[0]->is_first()) under_way_[0]->pass_up();
  return Work(std::make_unique<Chained>(*this, request, partial, tag));
}

}  // namespace zero
