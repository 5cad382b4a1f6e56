// AllReduceProbe: adds and copies as many bytes as one rank does in an all_reduce, in this process's own memory.
//
//   AllReduceProbe probe(256 << 20, comm.world());   // bytes of the array, number of ranks
//   probe.run();
//
// A block is bytes/world. It adds one block for each rank into a block, and copies a block for each other rank. So it
// holds up to three times the bytes. All values begin as 1. Local.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "zero/comm/rank_sum.h"
#include "zero/memory/account/host_memory.h"

namespace zero::cli {

class AllReduceProbe {
 public:
  AllReduceProbe(std::int64_t bytes, int world)
      : block_(bytes / world / 64 * 64),
        others_(block_ * (world - 1)),
        mine_(allocate_host(static_cast<std::size_t>(block_ + others_))),
        theirs_(allocate_host(static_cast<std::size_t>(2 * others_))) {
    std::ranges::fill(floats_of(mine_), 1.0f);
    std::ranges::fill(floats_of(theirs_), 1.0f);
    inputs_.push_back(mine_.data());
    for (std::int64_t other = 0; other < others_; other += block_) inputs_.push_back(theirs_.data() + other);
  }

  void run() {
    sum_ranks({.in = inputs_,
               .dtype = DType::kFloat32,
               .out = mine_.data(),
               .out_dtype = DType::kFloat32,
               .numel = block_ / static_cast<std::int64_t>(sizeof(float)),
               .accumulate = false},
              nullptr);
    std::memcpy(mine_.data() + block_, theirs_.data() + others_, static_cast<std::size_t>(others_));
  }

  // Returns the sums, and then the copies.
  std::span<const float> result() const { return floats_of(mine_); }

 private:
  static std::span<float> floats_of(const Allocation& memory) {
    return {reinterpret_cast<float*>(memory.data()), memory.size() / sizeof(float)};
  }

  std::int64_t block_, others_;  // bytes
  Allocation mine_, theirs_;
  std::vector<const std::byte*> inputs_;  // one of each rank
};

}  // namespace zero::cli
