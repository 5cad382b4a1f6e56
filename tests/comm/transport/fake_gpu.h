// FakeGpu: a test device whose lanes are queues. They run when the host asks or waits, so work is late as on a GPU.
//
//   FakeGpu gpu("0000:01:00.0");
//   gpu.copy(Lane::kUp, to, from);                // nothing yet
//   gpu.join(gpu.mark(Lane::kUp));                // now
//
// Its memory is the host's. native_queue() is the lane's FakeStream, in which the fake NCCL (fake_nccl/) queues its
// work. If work never ends, join() reports it and fails the test, because nothing may hang.
#pragma once

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "zero/base/error/error.h"
#include "zero/base/process/clock.h"
#include "zero/device/device.h"

namespace zero {

// A queue of work. Each piece is called until it returns true.
class FakeStream {
 public:
  using Piece = std::function<bool()>;
  void push(Piece piece) {
    queued_.push_back(std::move(piece));
    ++num_pushed_;
  }
  // Returns whether some piece ended.
  bool pump() {
    bool any = false;
    while (!queued_.empty() && queued_.front()()) {
      queued_.pop_front();
      ++num_done_;
      any = true;
    }
    return any;
  }
  std::size_t num_pushed() const { return num_pushed_; }
  bool is_past(std::size_t number) const { return num_done_ >= number; }

 private:
  std::deque<Piece> queued_;
  std::size_t num_pushed_ = 0, num_done_ = 0;
};

class FakeGpu final : public Device {
 public:
  explicit FakeGpu(std::string identity = "") : identity_(std::move(identity)) {}

  std::string_view name() const override { return "fake"; }
  bool host_readable() const override { return false; }
  std::string_view identity() const override { return identity_; }
  void* native_queue(Lane lane) override { return &stream(lane); }

  Allocation allocate(std::size_t bytes) override {
    if (bytes == 0) return {};
    auto* const data = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    std::memset(data, 0, bytes);
    return {data, bytes, [](std::byte* memory, std::size_t) { std::free(memory); }};
  }
  Allocation allocate_pinned(std::size_t bytes) override { return allocate(bytes); }

  Mark mark(Lane lane) override {
    return Mark(std::make_shared<const Point>(Point{&stream(lane), stream(lane).num_pushed()}));
  }
  void wait(Lane lane, const Mark& mark) override {
    if (!mark.empty()) stream(lane).push([mark] { return is_past(mark); });
  }
  bool done(const Mark& mark) override {
    pump();
    return mark.empty() || is_past(mark);
  }
  void join(const Mark& mark) override {
    const double begin = monotonic_seconds();
    while (!done(mark)) {
      if (monotonic_seconds() - begin > 60) throw InternalError("the host waits for work that does not end");
      std::this_thread::yield();
    }
  }

  void copy(Lane lane, std::span<std::byte> to, std::span<const std::byte> from) override {
    stream(lane).push([to, from] {
      std::memcpy(to.data(), from.data(), from.size());
      return true;
    });
  }
  void fill(Lane lane, std::span<std::byte> bytes, std::byte value) override {
    stream(lane).push([bytes, value] {
      std::memset(bytes.data(), std::to_integer<int>(value), bytes.size());
      return true;
    });
  }
  void run(Lane lane, const KernelCall& call) override {
    const std::vector<std::byte> arguments(call.arguments.begin(), call.arguments.end());
    stream(lane).push([code = call.kernel.host, arguments] {
      code(arguments.data());
      return true;
    });
  }

 private:
  struct Point {
    const FakeStream* stream;
    std::size_t number;
  };
  static bool is_past(const Mark& mark) {
    const Point& point = mark.as<Point>();
    return point.stream->is_past(point.number);
  }
  FakeStream& stream(Lane lane) { return streams_[static_cast<std::size_t>(lane)]; }
  void pump() {
    for (bool any = true; any;) {
      any = false;
      for (FakeStream& stream : streams_) any = stream.pump() || any;
    }
  }

  std::string identity_;
  std::array<FakeStream, kNumLanes> streams_;
};

}  // namespace zero
