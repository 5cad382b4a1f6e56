#include "zero/comm/copies_reduce.h"

#include <memory>

#include "zero/base/check.h"
#include "zero/comm/rank_sum.h"

namespace zero {
namespace {

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
    put_total();
    if (below >= 0) across_.drain();
  }

 private:
  void put_total() {
    if (request_.stats != nullptr) *request_.stats = {};
    const std::byte* const in[] = {reinterpret_cast<const std::byte*>(partial_.data())};
    sum_ranks({.in = in,
               .out = request_.out.data(),
               .out_dtype = request_.out_dtype,
               .numel = std::ssize(partial_),
               .accumulate = request_.accumulate},
              request_.stats);
  }

  Communicator& across_;
  ReduceScatter request_;
  std::span<float> partial_;
  CommTag tag_;
  Work from_below_, sum_;
};

}  // namespace

Work reduce_over_copies(Communicator& copy, Communicator& across, const ReduceScatter& request,
                        std::span<float> partial, CommTag tag) {
  request.check(copy.world(), copy.rank(), tag.blocks);
  ZERO_CHECK(partial.size() * size_of(request.out_dtype) == request.out.size(),
             "a block of {} elements is summed in {}", request.out.size() / size_of(request.out_dtype), partial.size());
  if (across.world() == 1) return copy.reduce_scatter(request, tag);
  return Work(std::make_unique<ReduceOverCopies>(copy, across, request, partial, tag));
}

}  // namespace zero
