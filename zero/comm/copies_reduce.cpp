#include "zero/comm/copies_reduce.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/comm/rank_sum.h"
#include "zero/plan/units/copy_pieces.h"

namespace zero {
namespace {

// Writes `total` to the request's output, from byte `first` on, and adds its statistics to the request's.
void add_total(std::span<const float> total, const ReduceScatter& request, std::size_t first = 0) {
  const std::byte* const in[] = {reinterpret_cast<const std::byte*>(total.data())};
  sum_ranks({.in = in,
             .out = request.out.data() + first,
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
    between.blocks = {};  // the tag has the blocks of a copy's shards; here all blocks are equal
    across_.reduce_scatter({.in = all, .out = mine}, between).wait();
    across_.drain();  // the gather overwrites blocks that peers may still read
    across_.all_gather(mine, all, between).wait();
    if (request_.stats != nullptr) *request_.stats = {};
    add_total(shard(), request_);
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

namespace {

// Pieces to begin ahead: receives from below, because a message may be held back until its receive is posted, and sums
// within the copy.
constexpr int kReceivesAhead = 8, kSumsAhead = 2;
static_assert(copy_piece_numel(1) % kStatsBlock == 0);

}  // namespace

// A sum in flight. Its pieces are sent up in their order, after those of earlier sums; totals arrive in the same order.
class SumOverCopies::Chained final : public Work::Operation {
 public:
  Chained(SumOverCopies& chain, const ReduceScatter& request, std::span<float> partial, CommTag tag)
      : chain_(chain), across_(chain.across_), request_(request), partial_(partial), tag_(tag) {
    // Largest block of a rank of the copy, because all its ranks pass the same number of pieces.
    std::size_t largest = 0;
    for (int rank = 0; rank < chain.copy_.world(); ++rank)
      largest =
          std::max(largest, tag.blocks.size(rank, chain.copy_.world(), request.in.size()) / size_of(request.dtype));
    piece_ = static_cast<std::size_t>(copy_piece_numel(static_cast<std::int64_t>(largest)));
    num_pieces_ = std::max<std::size_t>(1, (largest + piece_ - 1) / piece_);
    chain_.under_way_.push_back(this);
  }
  ~Chained() override { std::erase(chain_.under_way_, this); }
  Chained(const Chained&) = delete;
  Chained& operator=(const Chained&) = delete;

  void wait() override { chain_.wait(*this); }

  bool is_up() const { return num_up_ == num_pieces_; }
  bool is_down() const { return num_down_ == num_pieces_; }
  int num_expected() const { return static_cast<int>(from_below_.size()); }
  int num_summing() const { return static_cast<int>(sums_.size()); }

  // Each begins work for the next piece, and returns false if there is none.
  bool expect_next() {
    const std::size_t next = num_up_ + from_below_.size();
    if (next == num_pieces_) return false;
    from_below_.push_back(piece(next).empty() ? Work() : across_.receive(bytes(next), across_.rank() - 1, tag_));
    return true;
  }
  bool sum_next() {
    const std::size_t next = num_up_ + sums_.size();
    if (next == num_pieces_) return false;
    ReduceScatter own{.in = request_.in, .dtype = request_.dtype, .out = bytes(next)};
    if (!chain_.is_first()) own.onto = bytes(next);
    CommTag tag = tag_;
    tag.blocks = tag_.blocks.part(next * piece_, piece_, size_of(request_.dtype));
    sums_.push_back(chain_.copy_.reduce_scatter(own, tag));
    return true;
  }

  // Completes the sum of a piece over the copies up to this one, and sends it to the next copy. The last copy's sum is
  // the total.
  void pass_up() {
    if (!chain_.is_first()) take(from_below_).wait();
    take(sums_).wait();
    const std::size_t number = num_up_++;
    if (chain_.is_last()) {
      put_total(number);
      return;
    }
    const std::span<std::byte> block = bytes(number);
    to_above_.push_back(block.empty() ? Work() : across_.send(block, across_.rank() + 1, tag_));
    // Into the same memory, because the total arrives only after the copy above has read all of the piece.
    totals_.push_back(block.empty() ? Work() : across_.receive(block, across_.rank() + 1, tag_));
  }

  void come_down() {
    take(totals_).wait();
    take(to_above_).wait();
    put_total(num_down_);
  }

 private:
  static Work take(std::deque<Work>& works) {
    Work first = std::move(works.front());
    works.pop_front();
    return first;
  }

  std::span<float> piece(std::size_t number) const {
    const std::size_t begin = std::min(number * piece_, partial_.size());
    return partial_.subspan(begin, std::min(piece_, partial_.size() - begin));
  }
  std::span<std::byte> bytes(std::size_t number) const { return std::as_writable_bytes(piece(number)); }

  // Writes the total of a piece to this copy's output, and sends it to the copy below. Statistics begin with the first
  // piece, because an earlier sum in flight may have the same ones.
  void put_total(std::size_t number) {
    if (number == 0 && request_.stats != nullptr) *request_.stats = {};
    const std::span<float> total = piece(number);
    if (!chain_.is_first() && !total.empty()) across_.send(bytes(number), across_.rank() - 1, tag_).wait();
    const std::size_t width = size_of(request_.out_dtype);
    add_total(total, request_, static_cast<std::size_t>(total.data() - partial_.data()) * width);
    ++num_down_;
  }

  SumOverCopies& chain_;
  Communicator& across_;
  ReduceScatter request_;
  std::span<float> partial_;
  CommTag tag_;
  std::size_t piece_ = 0, num_pieces_ = 0;  // elements of a piece, and the pieces of the largest block
  std::size_t num_up_ = 0, num_down_ = 0;
  std::deque<Work> from_below_, sums_;  // of the next pieces that are sent up
  std::deque<Work> to_above_, totals_;  // of the next pieces whose totals are received
};

SumOverCopies::SumOverCopies(Communicator& copy, Communicator& across) : copy_(copy), across_(across) {
  // Enough pieces that the first total arrives when the next piece has been sent. The first copy waits for no copy
  // below.
  const int above = across.world() - 1 - across.rank();
  most_ahead_ = is_first() ? kMostPiecesAhead : std::min(2 * above + 1, kMostPiecesAhead);
}

// In the order of the sums, because peers number their messages, and ranks of a copy their collectives.
void SumOverCopies::look_ahead() {
  int expected = 0, summing = 0;
  for (const Chained* sum : under_way_) {
    expected += sum->num_expected();
    summing += sum->num_summing();
  }
  for (Chained* sum : under_way_) {
    while (!is_first() && expected < kReceivesAhead && sum->expect_next()) ++expected;
    while (summing < kSumsAhead && sum->sum_next()) ++summing;
  }
}

// Passes up the next piece of all sums; returns false if there is none.
bool SumOverCopies::pass_up() {
  const auto next = std::ranges::find_if(under_way_, [](const Chained* sum) { return !sum->is_up(); });
  if (next == under_way_.end()) return false;
  look_ahead();
  (*next)->pass_up();
  ahead_ += is_last() ? 0 : 1;
  return true;
}

void SumOverCopies::wait(Chained& sum) {
  ZERO_CHECK(under_way_.front() == &sum, "a sum over copies is waited for before one that began earlier");
  while (!sum.is_down()) {
    while (ahead_ < most_ahead_ && !sum.is_down() && pass_up()) {
    }
    if (sum.is_down()) break;
    sum.come_down();
    --ahead_;
  }
  if (!is_first()) across_.drain();
}

Work SumOverCopies::begin(const ReduceScatter& request, std::span<float> partial, CommTag tag) {
  request.check(copy_.world(), copy_.rank(), tag.blocks);
  ZERO_CHECK(partial.size() * size_of(request.out_dtype) == request.out.size(),
             "a block of {} elements is summed in {}", request.out.size() / size_of(request.out_dtype), partial.size());
  if (across_.world() == 1) return copy_.reduce_scatter(request, tag);
  // The first copy's pieces are sent while this rank computes.
  if (is_first() && under_way_.size() == 1) {
    while (ahead_ < most_ahead_ && pass_up()) {
    }
  }
  auto sum = std::make_unique<Chained>(*this, request, partial, tag);
  look_ahead();
  return Work(std::move(sum));
}

}  // namespace zero
