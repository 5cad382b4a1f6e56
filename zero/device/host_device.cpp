#include "zero/device/host_device.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/process/pages.h"
#include "zero/base/text/bytes.h"

namespace zero {

HostDevice& HostDevice::instance() {
  static HostDevice device;
  return device;
}

Allocation HostDevice::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  Allocation pages = map_private(bytes);
  if (!pages) {
    throw ConfigError("memory", format_bytes(static_cast<std::int64_t>(std::min(bytes, std::size_t{INT64_MAX}))),
                      fmt::format("the system does not give this process that much ({})", std::strerror(errno)),
                      "use more ranks, a higher stage or a smaller model; `ulimit -v` and "
                      "/proc/sys/vm/overcommit_memory may limit it");
  }
  return pages;
}

void HostDevice::copy(Lane /*lane*/, std::span<std::byte> to, std::span<const std::byte> from) {
  ZERO_CHECK(to.size() == from.size(), "{} bytes are copied to {}", from.size(), to.size());
  if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
}

void HostDevice::fill(Lane /*lane*/, std::span<std::byte> bytes, std::byte value) {
  if (!bytes.empty()) std::memset(bytes.data(), std::to_integer<int>(value), bytes.size());
}

}  // namespace zero
