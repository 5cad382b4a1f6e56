// HostDevice: main memory as the device. Work is done at once on the caller's thread, and lanes have no effect.
//
//   Device& device = HostDevice::instance();
//
// Thread-safe.
#pragma once

#include "zero/device/device.h"

namespace zero {

class HostDevice final : public Device {
 public:
  static HostDevice& instance();  // stateless

  std::string_view name() const override { return "host"; }
  bool host_readable() const override { return true; }
  [[nodiscard]] Allocation allocate(std::size_t bytes) override;
  [[nodiscard]] Allocation allocate_pinned(std::size_t bytes) override { return allocate(bytes); }

  [[nodiscard]] Mark mark(Lane /*lane*/) override { return {}; }
  void wait(Lane /*lane*/, const Mark& /*mark*/) override {}
  bool done(const Mark& /*mark*/) override { return true; }
  void join(const Mark& /*mark*/) override {}

  void copy(Lane lane, std::span<std::byte> to, std::span<const std::byte> from) override;
  void fill(Lane lane, std::span<std::byte> bytes, std::byte value) override;
  void run(Lane lane, const KernelCall& call) override { call.kernel.host(call.arguments.data()); }
};

}  // namespace zero
