#include "zero/torch/activations/large_blocks.h"

#include <algorithm>

#include <sys/resource.h>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "zero/base/process/machine.h"
#include "zero/memory/account/arena.h"

namespace zero {
namespace {

constexpr std::size_t kLargeBytes = std::size_t{1} << 20;

// Returns the size of the arena's address range. Holes cost addresses, not memory. If addresses are limited (ulimit
// -v), at most half of the limit is used.
std::size_t address_bytes() {
  const auto wanted = static_cast<std::size_t>(available_memory()) * 4;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  return std::min<std::size_t>(wanted, limit.rlim_cur / 2);
}

// Tensors may outlive everything else in the process, so the arena and LargeBlocks are never destroyed.
Arena& arena() {
  static Arena& one = *new Arena(address_bytes());
  return one;
}

void release(void* block) {
  if (arena().holds(block)) {
    arena().release(static_cast<std::byte*>(block));
  } else {
    c10::GetDefaultCPUAllocator()->raw_deallocate(block);
  }
}

class LargeBlocks final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    std::byte* block = bytes >= kLargeBytes ? arena().allocate(bytes) : nullptr;
    void* data = block != nullptr ? block : c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

void keep_large_blocks() {
  static LargeBlocks& blocks = *new LargeBlocks;
  if (c10::GetCPUAllocator() != &blocks) c10::SetCPUAllocator(&blocks);
}

}  // namespace zero
