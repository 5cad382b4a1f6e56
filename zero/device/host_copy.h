// HostCopy: a device's bytes for the host to read: the bytes themselves if the host can read them, else a pinned copy.
//
//   const HostCopy sums(device, Lane::kReduce, bytes);     // waits for all work queued in the lane so far
//   stats_of(sums.data(), dtype, numel);
//
// The bytes must not change during its lifetime. Local.
#pragma once

#include <cstddef>
#include <span>

#include "zero/device/device.h"

namespace zero {

class HostCopy {
 public:
  HostCopy(Device& device, Lane lane, std::span<const std::byte> bytes) : bytes_(bytes) {
    if (device.host_readable() || bytes.empty()) return;
    copy_ = device.allocate_pinned(bytes.size());
    follow(device, Lane::kDown, lane);
    device.copy(Lane::kDown, copy_.bytes(), bytes);
    device.join(device.mark(Lane::kDown));
    bytes_ = copy_.bytes();
  }

  const std::byte* data() const { return bytes_.data(); }

 private:
  Allocation copy_;
  std::span<const std::byte> bytes_;
};

}  // namespace zero
