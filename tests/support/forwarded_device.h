// ForwardedDevice: passes every call to another device. Tests derive from it and override some calls.
#pragma once

#include "zero/device/device.h"

namespace zero {

class ForwardedDevice : public Device {
 public:
  explicit ForwardedDevice(Device& real) : real_(real) {}

  std::string_view name() const override { return real_.name(); }
  bool host_readable() const override { return real_.host_readable(); }
  Allocation allocate(std::size_t bytes) override { return real_.allocate(bytes); }
  Allocation allocate_pinned(std::size_t bytes) override { return real_.allocate_pinned(bytes); }
  void when_short(std::function<void()> make_room) override { real_.when_short(std::move(make_room)); }
  std::string_view identity() const override { return real_.identity(); }
  void adopt(void* stream) override { real_.adopt(stream); }
  void* native_queue(Lane lane) override { return real_.native_queue(lane); }
  Mark mark(Lane lane) override { return real_.mark(lane); }
  void wait(Lane lane, const Mark& mark) override { real_.wait(lane, mark); }
  bool done(const Mark& mark) override { return real_.done(mark); }
  void join(const Mark& mark) override { real_.join(mark); }
  void copy(Lane lane, std::span<std::byte> to, std::span<const std::byte> from) override {
    real_.copy(lane, to, from);
  }
  void fill(Lane lane, std::span<std::byte> bytes, std::byte value) override { real_.fill(lane, bytes, value); }
  void run(Lane lane, const KernelCall& call) override { real_.run(lane, call); }
  void touches(Lane lane, std::span<const Access> accesses, std::string_view who) override {
    real_.touches(lane, accesses, who);
  }
  void host_touches(std::span<const Access> accesses, std::string_view who) override {
    real_.host_touches(accesses, who);
  }

 private:
  Device& real_;
};

}  // namespace zero
