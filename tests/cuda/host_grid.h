// run_grid(): a GPU's kernel on the host, with a fiber for each thread. Also the words of CUDA that the kernels of
// plugins/cuda use.
//
//   #include "host_grid.h"                       // first: it defines __device__ and threadIdx
//   #include "plugins/cuda/update_kernels.cuh"
//   run_grid({.blocks = 3, .threads = bodies::kThreads, .seed = 7}, [&] { bodies::update_kernel(table); });
//
// Blocks run one after the other, and the fibers of a block in a new random order at each turn. A fiber runs until it
// meets a barrier or exchanges a value with its warp. If a thread has left a loop that others continue, all fibers may
// wait forever; run_grid() then throws. Not found: errors of the GPU's memory model, and races between two such points.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include <ucontext.h>

#define __device__
#define __global__ inline
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)

namespace zero {

struct HostGrid {
  unsigned blocks = 1;
  unsigned threads = 32;
  std::uint64_t seed = 0;
};

class FiberBlock {
 public:
  FiberBlock(unsigned threads, std::mt19937_64& random, const std::function<void()>& kernel)
      : random_(random), kernel_(kernel), fibers_(threads), slots_(threads), warps_((threads + 31) / 32) {}

  // Returns when all fibers are done.
  void run();
  // The thread of the running fiber.
  unsigned thread() const { return running_; }
  void meet_block() { meet(whole_, static_cast<unsigned>(fibers_.size())); }
  void meet_warp() { meet(warps_[running_ / 32], 32); }
  std::uint64_t& slot(unsigned thread) { return slots_[thread]; }

 private:
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack;
    bool done = false;
  };
  struct Barrier {
    unsigned arrived = 0, generation = 0;
  };

  static void enter();
  void yield() { swapcontext(&fibers_[running_].context, &scheduler_); }
  void meet(Barrier& barrier, unsigned expected) {
    progress_ = true;
    const unsigned mine = barrier.generation;
    if (++barrier.arrived == expected) {
      barrier.arrived = 0;
      ++barrier.generation;
      return;
    }
    while (barrier.generation == mine) yield();
    progress_ = true;
  }

  std::mt19937_64& random_;
  const std::function<void()>& kernel_;
  std::vector<Fiber> fibers_;
  std::vector<std::uint64_t> slots_;
  std::vector<Barrier> warps_;
  Barrier whole_;
  ucontext_t scheduler_{};
  unsigned running_ = 0;
  bool progress_ = false;
};

// The running block. Global, because kernels use threadIdx without an object.
inline FiberBlock* running_block = nullptr;

inline void FiberBlock::enter() {
  FiberBlock& block = *running_block;
  block.kernel_();
  block.fibers_[block.running_].done = true;
  block.progress_ = true;
  block.yield();
}

inline void FiberBlock::run() {
  constexpr std::size_t kStackBytes = 64 << 10;
  std::vector<unsigned> order;
  for (unsigned i = 0; i < fibers_.size(); ++i) {
    Fiber& fiber = fibers_[i];
    fiber.stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    makecontext(&fiber.context, &FiberBlock::enter, 0);
    order.push_back(i);
  }
  running_block = this;
  while (!order.empty()) {
    std::ranges::shuffle(order, random_);
    progress_ = false;
    for (const unsigned fiber : order) {
      running_ = fiber;
      swapcontext(&scheduler_, &fibers_[fiber].context);
    }
    std::erase_if(order, [&](unsigned fiber) { return fibers_[fiber].done; });
    if (!progress_) throw std::runtime_error("threads of a block wait for one that has gone another way");
  }
  running_block = nullptr;
}

struct ThreadPlace {
  struct X {
    operator unsigned() const { return running_block->thread(); }
  } x;
};
struct GridPlace {
  unsigned x = 0;
};
inline ThreadPlace threadIdx;
inline GridPlace blockIdx, gridDim;

inline void run_grid(const HostGrid& grid, const std::function<void()>& kernel) {
  std::mt19937_64 random(grid.seed);
  gridDim.x = grid.blocks;
  for (blockIdx.x = 0; blockIdx.x < grid.blocks; ++blockIdx.x) FiberBlock(grid.threads, random, kernel).run();
}

// ---- CUDA's words ---------------------------------------------------------------------------------------------------
inline void __syncthreads() {
  running_block->meet_block();
}

template <typename T>
T __shfl_xor_sync(unsigned /*lanes*/, T value, int distance) {
  FiberBlock& block = *running_block;
  const unsigned thread = block.thread();
  std::memcpy(&block.slot(thread), &value, sizeof value);
  block.meet_warp();
  T other;
  std::memcpy(&other, &block.slot(thread ^ static_cast<unsigned>(distance)), sizeof other);
  block.meet_warp();
  return other;
}

inline unsigned __reduce_max_sync(unsigned lanes, unsigned value) {
  for (int distance = 16; distance > 0; distance /= 2) value = std::max(value, __shfl_xor_sync(lanes, value, distance));
  return value;
}

inline void atomicAdd(unsigned long long* into, unsigned long long value) {
  *into += value;
}

}  // namespace zero
