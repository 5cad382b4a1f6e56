// Device: the memory of units while operators use them, and all operations on bytes there.
//
//   device.copy(Lane::kUp, block, tile);                    // host to device
//   device.wait(Lane::kUpdate, device.mark(Lane::kUp));
//   run(device, Lane::kUpdate, kAdam, arguments, {changes(block)});
//   device.join(device.mark(Lane::kUpdate));                // the host waits
//
// Work is queued in lanes, and functions return when it is queued. A lane runs its work in order. Two lanes run in any
// order, or at once, unless wait() makes later work of one lane wait for a mark of the other. The host may read a
// result, or change, free or reuse memory of queued work, only after it has joined a mark after that work. So memory
// passes from lane to lane together with the mark of its last use. On main memory (HostDevice) work is done when its
// function returns, marks are empty, and waits are free. RecordedDevice finds work without an order.
//
// Local. One thread at a time, except run() on a device that the host can read. Throws DeviceError if the device fails,
// and ConfigError ("memory") if its memory is short.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "zero/base/process/allocation.h"
#include "zero/device/kernel.h"
#include "zero/device/lane.h"

namespace zero {

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;  // "host", "cuda:0"
  // Returns whether the host may use the device's memory like its own. Then lanes have no effect.
  virtual bool host_readable() const = 0;

  // Returns zeroed memory, aligned to 256 bytes. The caller frees it when no lane uses it any more.
  [[nodiscard]] virtual Allocation allocate(std::size_t bytes) = 0;
  // Returns host memory with the fastest copies (on CUDA: pinned), zeroed, page-aligned.
  [[nodiscard]] virtual Allocation allocate_pinned(std::size_t bytes) = 0;

  // Returns the alignment of each parameter in bytes. It must not differ between two runs, because a library chooses
  // kernels, and so bits, by the alignment that it finds (cuBLASLt: up to 256).
  std::int64_t align_bytes() const { return host_readable() ? 64 : 256; }

  // Sets a function that makes others free unused device memory. allocate() calls it if there is no room, and tries
  // once more before it throws.
  virtual void when_short(std::function<void()> /*make_room*/) {}

  // Returns a text that identifies the device among all machines, so ranks can find out whether they share it. Empty:
  // unknown.
  virtual std::string_view identity() const { return {}; }

  // Makes kCompute this queue of the device's library (CUDA: a cudaStream_t).
  virtual void adopt(void* /*stream*/) {}

  // Returns the lane as a queue of the device's library (CUDA: a cudaStream_t), in which others may queue work from the
  // calling thread. Null: none.
  virtual void* native_queue(Lane /*lane*/) { return nullptr; }

  // Returns a mark after all work queued in the lane.
  [[nodiscard]] virtual Mark mark(Lane lane) = 0;
  virtual void wait(Lane lane, const Mark& mark) = 0;
  virtual bool done(const Mark& mark) = 0;
  virtual void join(const Mark& mark) = 0;

  // Returns a mark for seconds_between(). On a GPU it costs a little more than mark().
  [[nodiscard]] virtual Mark timed_mark(Lane lane) { return mark(lane); }
  // Returns the seconds between the moments in which lanes passed two timed marks, by the device's clock. Nothing if a
  // mark is not done. It orders nothing: results may be used only after done() or join(). 0 if the host can read the
  // device, because its lanes have no effect.
  virtual std::optional<double> seconds_between(const Mark& /*earlier*/, const Mark& /*later*/) { return 0; }

  // Copies between device memory and pinned memory, in any combination. Sizes are equal; ranges must not overlap.
  virtual void copy(Lane lane, std::span<std::byte> to, std::span<const std::byte> from) = 0;
  virtual void fill(Lane lane, std::span<std::byte> bytes, std::byte value) = 0;
  virtual void run(Lane lane, const KernelCall& call) = 0;

  // Announces work that others queue in the lane now, such as the model's operators, and its accesses.
  virtual void touches(Lane /*lane*/, std::span<const Access> /*accesses*/, std::string_view /*who*/) {}
  // Announces accesses of the host itself, now. Needed only for pinned memory.
  virtual void host_touches(std::span<const Access> /*accesses*/, std::string_view /*who*/) {}
};

template <typename Arguments>
void run(Device& device, Lane lane, const Kernel& kernel, const Arguments& arguments,
         std::initializer_list<Access> accesses) {
  device.run(lane, {kernel, std::as_bytes(std::span(&arguments, 1)), {accesses.begin(), accesses.size()}});
}

// Orders later work of `lane` after all work queued in `earlier` so far.
inline void follow(Device& device, Lane lane, Lane earlier) {
  if (lane != earlier) device.wait(lane, device.mark(earlier));
}

// The last use of some memory, which the next user must wait for. An empty mark means no use, or that the host has
// waited.
struct LastUse {
  Lane lane = Lane::kCompute;
  Mark mark{};
};
// Returns all uses in the lane so far.
inline LastUse used_in(Device& device, Lane lane) {
  return {lane, device.mark(lane)};
}
inline void follow(Device& device, Lane lane, const LastUse& use) {
  if (lane != use.lane) device.wait(lane, use.mark);
}

// Waits on the host for the mark, and does other work meanwhile: `work` does a piece, and returns whether there was
// one. Empty: no work.
inline void join_working(Device& device, const Mark& mark, const std::function<bool()>& work) {
  while (work && !device.done(mark) && work()) {
  }
  device.join(mark);
}

// Waits on the host for all work queued so far.
inline void join_all(Device& device) {
  for (const Lane lane : kAllLanes) device.join(device.mark(lane));
}

}  // namespace zero
