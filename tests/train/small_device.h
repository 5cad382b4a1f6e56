// SmallDevice: main memory in the role of a device. zero.cpp and libtorch allocate from it, and a test chooses its
// size. If an allocation of libtorch fails, the error has the words of libtorch's allocator for GPUs.
//
//   SmallMemory memory(2 << 20);                                    // from here on tensors are counted
//   train(job, world, output, {.open_device = [&](std::string_view) { return std::make_unique<SmallDevice>(memory); },
//                              .held_by_torch = [&] { return memory.most_of_torch(); }});
//
// There is at most one SmallMemory at a time. As on a GPU, libtorch's allocator caches freed memory and finds small
// blocks there: less than 64 KiB are never refused. Any number of threads may allocate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/device/host_device.h"

#include "tests/support/forwarded_device.h"

namespace zero {

class SmallMemory {
 public:
  explicit SmallMemory(std::int64_t bytes) : bytes_(bytes), before_(c10::GetCPUAllocator()) {
    TorchMemory::instance().use(this);
    c10::SetCPUAllocator(&TorchMemory::instance());
  }
  ~SmallMemory() {
    c10::SetCPUAllocator(before_);
    TorchMemory::instance().use(nullptr);
  }
  SmallMemory(const SmallMemory&) = delete;
  SmallMemory& operator=(const SmallMemory&) = delete;

  std::int64_t most_of_torch() const {
    return locked([this] { return most_of_torch_; });
  }
  std::int64_t most_of_zero() const {
    return locked([this] { return most_of_zero_; });
  }
  std::int64_t most_in_all() const {
    return locked([this] { return most_in_all_; });
  }

  Allocation take(std::size_t size) {
    const auto wanted = static_cast<std::int64_t>(size);
    const std::int64_t free = locked([&] { return bytes_ - most_of_torch_ - of_zero_; });
    if (wanted > free)
      throw ConfigError("memory", format_bytes(wanted), fmt::format("small has {} free", format_bytes(free)),
                        "use a smaller zero.device_memory");
    count_zero(wanted);
    auto memory = std::make_shared<Allocation>(HostDevice::instance().allocate(size));
    return {memory->data(), size,
            [this, memory](std::byte*, std::size_t given_back) { count_zero(-static_cast<std::int64_t>(given_back)); }};
  }

 private:
  // Is never destroyed, because tensors may outlive a SmallMemory.
  class TorchMemory final : public c10::Allocator {
   public:
    static TorchMemory& instance() {
      static TorchMemory* const memory = new TorchMemory;
      return *memory;
    }
    void use(SmallMemory* memory) {
      const std::lock_guard lock(mutex_);
      memory_ = memory;
      sizes_.clear();  // earlier tensors no longer count
    }
    c10::DataPtr allocate(std::size_t size) override {
      constexpr std::size_t kAlignment = 64;
      const std::lock_guard lock(mutex_);
      if (memory_ != nullptr) memory_->take_for_torch(static_cast<std::int64_t>(size));
      void* const data =
          size == 0 ? nullptr : std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
      if (data != nullptr) sizes_[data] = static_cast<std::int64_t>(size);
      return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
    void copy_data(void* to, const void* from, std::size_t size) const override { default_copy_data(to, from, size); }

   private:
    static void give_back(void* data) {
      TorchMemory& all = instance();
      const std::lock_guard lock(all.mutex_);
      const auto found = all.sizes_.find(data);
      if (found != all.sizes_.end()) {
        if (all.memory_ != nullptr) all.memory_->give_back_of_torch(found->second);
        all.sizes_.erase(found);
      }
      std::free(data);
    }
    std::mutex mutex_;
    SmallMemory* memory_ = nullptr;
    std::map<void*, std::int64_t> sizes_;
  };

  void take_for_torch(std::int64_t wanted) {
    constexpr std::int64_t kSmall = 64 << 10;
    const std::lock_guard lock(mutex_);
    const std::int64_t taken = std::max(most_of_torch_, of_torch_ + wanted);
    TORCH_CHECK_WITH(OutOfMemoryError, wanted < kSmall || taken + of_zero_ <= bytes_,
                     "CUDA out of memory. Tried to allocate ",
                     fmt::format("{:.2f} KiB", static_cast<double>(wanted) / 1024), ". GPU 0 is small.");
    of_torch_ += wanted;
    most_of_torch_ = taken;
    most_in_all_ = std::max(most_in_all_, most_of_torch_ + of_zero_);
  }
  void give_back_of_torch(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    of_torch_ -= bytes;
  }
  void count_zero(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    of_zero_ += bytes;
    most_of_zero_ = std::max(most_of_zero_, of_zero_);
    most_in_all_ = std::max(most_in_all_, most_of_torch_ + of_zero_);
  }
  template <typename Read>
  std::int64_t locked(Read read) const {
    const std::lock_guard lock(mutex_);
    return read();
  }

  const std::int64_t bytes_;
  at::Allocator* const before_;
  mutable std::mutex mutex_;
  std::int64_t of_torch_ = 0, most_of_torch_ = 0;
  std::int64_t of_zero_ = 0, most_of_zero_ = 0, most_in_all_ = 0;
};

// The engine treats its memory as unreadable by the host.
class SmallDevice final : public ForwardedDevice {
 public:
  explicit SmallDevice(SmallMemory& memory) : ForwardedDevice(HostDevice::instance()), memory_(memory) {}
  std::string_view name() const override { return "small"; }
  bool host_readable() const override { return false; }
  Allocation allocate(std::size_t bytes) override { return memory_.take(bytes); }

 private:
  SmallMemory& memory_;
};

}  // namespace zero
