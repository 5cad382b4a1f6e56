// CorruptingCommunicator: flips one bit of the data that this rank receives, once, like faulty memory or a faulty wire.
//
//   CorruptingCommunicator comm(real, {.operation = Operation::kAllGather, .number = 7, .random = 12345});
//
// Bookkeeping collectives are neither corrupted nor counted. In an all_gather, a bit of a nonzero element of another
// rank's block flips. In a reduce_scatter, a bit of the sum flips.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "zero/comm/signature.h"

#include "tests/support/forwarded_communicator.h"

namespace zero {

struct BitFlip {
  Operation operation = Operation::kAllGather;
  int number = 0;  // index among the calls of this operation, from 0
  std::uint64_t random = 0;
  bool high_half = false;  // of a four-byte element: sign, exponent and the first mantissa bits
};

class CorruptingCommunicator final : public ForwardedCommunicator {
 public:
  CorruptingCommunicator(Communicator& real, std::optional<BitFlip> flip) : ForwardedCommunicator(real), flip_(flip) {}
  CorruptingCommunicator(std::unique_ptr<Communicator> real, std::optional<BitFlip> flip)
      : ForwardedCommunicator(std::move(real)), flip_(flip) {}

  bool flipped() const { return flipped_; }
  int unit() const { return unit_; }  // the unit of the corrupted collective

  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override {
    Work work = ForwardedCommunicator::all_gather(in, out, tag);
    if (!is_the_one(Operation::kAllGather, tag)) return work;
    const std::size_t own = in.size() * static_cast<std::size_t>(rank());
    return Work(std::make_unique<Flipping>(*this, std::move(work), out, own, in.size()));
  }
  Work reduce_scatter(const ReduceScatter& request, CommTag tag) override {
    Work work = ForwardedCommunicator::reduce_scatter(request, tag);
    if (!is_the_one(Operation::kReduceScatter, tag)) return work;
    return Work(std::make_unique<Flipping>(*this, std::move(work), request.out, 0, 0));
  }

 private:
  class Flipping final : public Work::Operation {
   public:
    // Bytes [own, own + own_bytes) belong to this rank.
    Flipping(CorruptingCommunicator& comm, Work work, std::span<std::byte> out, std::size_t own, std::size_t own_bytes)
        : comm_(comm), work_(std::move(work)), out_(out), own_(own), own_bytes_(own_bytes) {}
    void wait() override {
      work_.wait();
      comm_.flip(out_, own_, own_bytes_);
    }

   private:
    CorruptingCommunicator& comm_;
    Work work_;
    std::span<std::byte> out_;
    std::size_t own_, own_bytes_;
  };

  bool is_the_one(Operation operation, CommTag tag) {
    if (!flip_ || tag.control || operation != flip_->operation || seen_++ != flip_->number) return false;
    unit_ = tag.unit;
    return true;
  }

  void flip(std::span<std::byte> out, std::size_t own, std::size_t own_bytes) {
    std::vector<std::size_t> words;  // indices of nonzero words of four bytes
    for (std::size_t at = 0; at + 4 <= out.size(); at += 4) {
      std::uint32_t word = 0;
      std::memcpy(&word, out.data() + at, 4);
      if ((at < own || at >= own + own_bytes) && word != 0) words.push_back(at);
    }
    if (words.empty()) return;
    const std::size_t at = words[flip_->random % words.size()];
    std::uint32_t word = 0;
    std::memcpy(&word, out.data() + at, 4);
    const auto drawn = static_cast<unsigned>(flip_->random / words.size());
    unsigned bit = flip_->high_half ? 16 + drawn % 16 : drawn % 32;
    if ((word >> (bit / 16 * 16) & 0xffffU) == 0) bit ^= 16U;  // of two bf16 elements, the nonzero one
    word ^= 1U << bit;
    std::memcpy(out.data() + at, &word, 4);
    flipped_ = true;
  }

  std::optional<BitFlip> flip_;
  int seen_ = 0;
  int unit_ = -1;
  bool flipped_ = false;
};

}  // namespace zero
