// What a Communicator gives when its transport has nothing better.
#include "zero/comm/communicator.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "zero/base/check.h"
#include "zero/base/pages.h"
#include "zero/comm/rank_sum.h"

namespace zero {
namespace {

// What a reduction in tiles holds at a time, for what it sends and again for what it receives.
constexpr std::int64_t kStagingBytes = std::int64_t{2} << 20;

// reduce_scatter as an all_to_all in tiles of whole blocks of statistics, each followed by its sum.
class TiledReduceScatter final : public Work::Operation {
 public:
  TiledReduceScatter(Communicator& comm, const ReduceScatter& request, CommTag tag)
      : comm_(comm), request_(request), tag_(tag), world_(comm.world()) {
    const std::int64_t width = size_of(request.dtype);
    numel_ = static_cast<std::int64_t>(request.in.size()) / world_ / width;
    tile_ = std::max<std::int64_t>(kStagingBytes / world_ / width / kStatsBlock, 1) * kStatsBlock;
    tile_ = std::min(tile_, numel_);
    received_.resize(static_cast<std::size_t>(tile_ * width * world_));
    if (tile_ < numel_) packed_.resize(received_.size());
    exchange_ = begin_tile(0);
  }

  void wait() override {
    if (request_.stats != nullptr) *request_.stats = {};
    for (std::int64_t first = 0; first < numel_ || first == 0; first += tile_) {
      exchange_.wait();
      sum_tile(first);
      if (first + tile_ >= numel_) break;
      comm_.drain();  // packed_ is written again
      exchange_ = begin_tile(first + tile_);
    }
    if (!packed_.empty()) comm_.drain();
  }

 private:
  std::int64_t numel_of_tile(std::int64_t first) const { return std::min(tile_, numel_ - first); }

  Work begin_tile(std::int64_t first) {
    const std::size_t width = size_of(request_.dtype), bytes = numel_of_tile(first) * width;
    const std::span<std::byte> out(received_.data(), bytes * world_);
    if (packed_.empty()) return comm_.all_to_all(request_.in, out, tag_);
    for (int r = 0; r < world_; ++r) {
      std::memcpy(packed_.data() + r * bytes, request_.in.data() + (r * numel_ + first) * width, bytes);
    }
    return comm_.all_to_all(std::span(packed_.data(), bytes * world_), out, tag_);
  }

  void sum_tile(std::int64_t first) {
    const std::int64_t numel = numel_of_tile(first);
    std::vector<const std::byte*> in(world_);
    for (int r = 0; r < world_; ++r) in[r] = received_.data() + r * numel * size_of(request_.dtype);
    sum_ranks({.in = in,
               .dtype = request_.dtype,
               .out = request_.out.data() + first * size_of(request_.out_dtype),
               .out_dtype = request_.out_dtype,
               .numel = numel,
               .accumulate = request_.accumulate,
               .onto = request_.onto.empty() ? nullptr : reinterpret_cast<const float*>(request_.onto.data()) + first},
              request_.stats);
  }

  Communicator& comm_;
  ReduceScatter request_;
  CommTag tag_;
  int world_;
  std::int64_t numel_ = 0;  // of one block
  std::int64_t tile_ = 0;   // elements of a block that one exchange carries
  std::vector<std::byte> packed_, received_;
  Work exchange_;
};

}  // namespace

void ReduceScatter::check(int world) const {
  const std::size_t width = size_of(dtype);
  ZERO_CHECK(in.size() % (width * world) == 0, "{} bytes are not {} blocks of {}", in.size(), world, name_of(dtype));
  ZERO_CHECK(out.size() % size_of(out_dtype) == 0 && out.size() / size_of(out_dtype) * width * world == in.size(),
             "a block of {} bytes of {} goes into {} bytes of {}", in.size() / world, name_of(dtype), out.size(),
             name_of(out_dtype));
  ZERO_CHECK(onto.empty() || onto.size() / 4 * width * world == in.size(), "a sum of {} bytes begins with {}",
             in.size(), onto.size());
  ZERO_CHECK(!accumulate || out_dtype == DType::kFloat32, "only fp32 accumulates");
}

Work Communicator::reduce_scatter(const ReduceScatter& request, CommTag tag) {
  request.check(world());
  return Work(std::make_unique<TiledReduceScatter>(*this, request, tag));
}

Allocation Communicator::allocate(std::size_t bytes, Written /*written*/) {
  if (bytes == 0) return {};
  Allocation pages = map_private(bytes);
  if (!pages) throw std::bad_alloc();
  return pages;
}

}  // namespace zero
