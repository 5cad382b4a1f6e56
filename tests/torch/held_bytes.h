// HeldBytes: bytes of tensors on this thread, while a guard makes torch report allocations to it.
#pragma once

#include <algorithm>
#include <cstdint>

#include <c10/core/Allocator.h>

namespace zero {

// Bytes of tensors on this thread since construction: now, and at most.
class HeldBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
    now += bytes;
    most = std::max(most, now);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t now = 0, most = 0;
};

}  // namespace zero
