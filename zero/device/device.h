// Device: the memory in which units lie while operators use them, and everything that is done to bytes there.
//
// Work on a device is queued in lanes. What is queued in one lane runs in that order. Work of two lanes runs in any
// order, or at once, unless wait() puts a mark of the one before what follows in the other. A function returns when its work is queued:
// the host may read a result, or write, give back or hand out again what the work reads, only once it has joined a mark
// behind it. So memory is handed from lane to lane together with the mark of its last use.
//
//   device.copy(Lane::kUp, block, tile);                    // host to device
//   device.wait(Lane::kUpdate, device.mark(Lane::kUp));
//   run(device, Lane::kUpdate, kAdam, arguments, {changes(block)});
//   device.join(device.mark(Lane::kUpdate));                // the host waits
//
// Where the device is main memory (HostDevice) work is done when its function returns, marks are empty, and waiting
// costs nothing. RecordedDevice finds work that nothing orders.
//
// Local. One thread at a time, but for run() of a device that the host can read. Throws DeviceError where the device fails, and
// ConfigError ("memory") where its memory is short.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "zero/base/allocation.h"
#include "zero/device/kernel.h"
#include "zero/device/lane.h"

namespace zero {

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;  // "host", "cuda:0"
  // True where the host may use the device's memory like its own. Then lanes do nothing.
  virtual bool host_readable() const = 0;

  // Contents are zeros; aligned to 256 bytes. The caller gives it back once no lane uses it.
  [[nodiscard]] virtual Allocation allocate(std::size_t bytes) = 0;
  // Memory of the host that copies cross fastest (on CUDA: pinned), zeroed, page-aligned.
  [[nodiscard]] virtual Allocation allocate_pinned(std::size_t bytes) = 0;

  // Operators find each parameter at a multiple of this many bytes, whatever else differs between two runs: a library chooses
  // kernels, and with them bits, by the alignment that it finds (cuBLASLt: up to 256).
  std::int64_t align_bytes() const { return host_readable() ? 64 : 256; }

  // allocate() calls it where it finds no room, and then tries once more before it throws: `make_room` lets others give back what they
  // keep of the device's memory, and do not use.
  virtual void when_short(std::function<void()> /*make_room*/) {}

  // Which one it is among those of all machines, for ranks to compare: two that share a device have the same text. Empty: it
  // cannot say.
  virtual std::string_view identity() const { return {}; }

  // kCompute is this queue of the device's own library from now on (CUDA: a cudaStream_t).
  virtual void adopt(void* /*stream*/) {}

  // The lane as the device's own library knows it (CUDA: a cudaStream_t), for others to queue work in it from the calling thread.
  // Null: there is none.
  virtual void* native_queue(Lane /*lane*/) { return nullptr; }

  // Behind all that is queued in the lane.
  [[nodiscard]] virtual Mark mark(Lane lane) = 0;
  virtual void wait(Lane lane, const Mark& mark) = 0;
  virtual bool done(const Mark& mark) = 0;
  virtual void join(const Mark& mark) = 0;

  // A mark whose time seconds_between() tells. It costs a GPU a little more than mark().
  [[nodiscard]] virtual Mark timed_mark(Lane lane) { return mark(lane); }
  // By the device's own clock, from the moment in which a lane passed one timed mark to that in which a lane, the same or another,
  // passed a later one. Nothing where one of them is not done. It orders nothing: what was done before a mark may be used after
  // done() or join() alone. 0 where the host can read the device: there lanes do nothing.
  virtual std::optional<double> seconds_between(const Mark& /*earlier*/, const Mark& /*later*/) { return 0; }

  // Between any two of device memory and pinned memory, as large as each other, and without overlap.
  virtual void copy(Lane lane, std::span<std::byte> to, std::span<const std::byte> from) = 0;
  virtual void fill(Lane lane, std::span<std::byte> bytes, std::byte value) = 0;
  virtual void run(Lane lane, const KernelCall& call) = 0;

  // Work that somebody else queues, such as operators of the model: they touch these bytes in that lane, now.
  virtual void touches(Lane /*lane*/, std::span<const Access> /*accesses*/, std::string_view /*who*/) {}
  // The host itself reads or writes these bytes, now. Of pinned memory only it can tell; other memory is no concern.
  virtual void host_touches(std::span<const Access> /*accesses*/, std::string_view /*who*/) {}
};

template <typename Arguments>
void run(Device& device, Lane lane, const Kernel& kernel, const Arguments& arguments,
         std::initializer_list<Access> accesses) {
  device.run(lane, {kernel, std::as_bytes(std::span(&arguments, 1)), {accesses.begin(), accesses.size()}});
}

// What is queued in `lane` from now on comes after all that is queued in `earlier` by now.
inline void follow(Device& device, Lane lane, Lane earlier) {
  if (lane != earlier) device.wait(lane, device.mark(earlier));
}

// The last use of some memory: who uses it next comes after it. Nobody has used it, or the host has waited: an empty mark.
struct LastUse {
  Lane lane = Lane::kCompute;
  Mark mark{};
};
// All uses in the lane by now.
inline LastUse used_in(Device& device, Lane lane) {
  return {lane, device.mark(lane)};
}
inline void follow(Device& device, Lane lane, const LastUse& use) {
  if (lane != use.lane) device.wait(lane, use.mark);
}

// The host waits for the mark, and does other work meanwhile: `work` does a piece, and says whether there was one. Empty: none.
inline void join_working(Device& device, const Mark& mark, const std::function<bool()>& work) {
  while (work && !device.done(mark) && work()) {
  }
  device.join(mark);
}

// The host waits for all that is queued by now.
inline void join_all(Device& device) {
  for (const Lane lane : kAllLanes) device.join(device.mark(lane));
}

}  // namespace zero
