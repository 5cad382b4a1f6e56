// HeldBytes: what tensors take on this thread, while a guard has torch report to it.
#pragma once

#include <algorithm>
#include <cstdint>

#include <c10/core/Allocator.h>

namespace zero {

// Bytes of tensors that this thread holds since it began, now and at most.
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
