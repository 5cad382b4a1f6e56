#include "zero/torch/meta/meta_memory.h"

#include <atomic>

#include <c10/core/Allocator.h>

namespace zero {

// A storage asks its own allocator for more memory, so each storage keeps the counter alive.
class MetaMemory::Counter final : public c10::Allocator, public std::enable_shared_from_this<Counter> {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const auto size = static_cast<std::int64_t>(bytes);
    const std::int64_t live = live_.fetch_add(size) + size;
    std::int64_t peak = peak_.load();
    while (live > peak && !peak_.compare_exchange_weak(peak, live)) {
    }
    return {nullptr, new Block{shared_from_this(), size}, &Block::free, c10::Device(c10::DeviceType::Meta)};
  }
  void copy_data(void*, const void*, std::size_t) const override {}

  std::int64_t live() const { return live_.load(); }
  std::int64_t peak() const { return peak_.load(); }

 private:
  struct Block {
    std::shared_ptr<Counter> counter;
    std::int64_t bytes;
    static void free(void* block) {
      const std::unique_ptr<Block> mine(static_cast<Block*>(block));
      mine->counter->live_.fetch_sub(mine->bytes);
    }
  };
  std::atomic<std::int64_t> live_{0}, peak_{0};
};

MetaMemory::MetaMemory() : counter_(std::make_shared<Counter>()), before_(c10::GetAllocator(c10::DeviceType::Meta)) {
  c10::SetAllocator(c10::DeviceType::Meta, counter_.get());
}

MetaMemory::~MetaMemory() {
  c10::SetAllocator(c10::DeviceType::Meta, before_);
}

std::int64_t MetaMemory::live_bytes() const {
  return counter_->live();
}
std::int64_t MetaMemory::peak_bytes() const {
  return counter_->peak();
}

}  // namespace zero
