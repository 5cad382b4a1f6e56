// CudaDevice: one NVIDIA GPU as a Device (zero/device/device.h): a lane is a stream, a mark is an event.
//
//   std::unique_ptr<CudaDevice> device = CudaDevice::open(request, failure);     // null: see failure
//
// Streams are non-blocking: only marks order them, among each other and with torch's streams. Events come from two
// pools (with and without times), which marks keep alive. DeviceRequest::fail reports a driver's error with the
// operation that noticed it, which may be later than the failed one, because GPUs report errors late. The context is
// CUDA's primary one, as torch's.
//
// Local. Any thread may free Marks and Allocations; otherwise one thread at a time.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "zero/device/device.h"
#include "zero/device/device_border.h"

#include "plugins/cuda/launch.h"

namespace zero {

// A pool of events for marks. Events belong to the device that was current when they were taken.
class EventPool {
 public:
  // `flags`: cudaEventDisableTiming, or cudaEventDefault for events with times.
  EventPool(int device, unsigned flags) : device_(device), flags_(flags) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  cudaError_t take(cudaEvent_t& event);
  void give_back(cudaEvent_t event);

 private:
  int device_;
  unsigned flags_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

class CudaDevice final : public Device {
 public:
  static std::unique_ptr<CudaDevice> open(const DeviceRequest& request, DeviceFailure& failure);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::string_view name() const override { return name_; }
  bool host_readable() const override { return false; }
  [[nodiscard]] Allocation allocate(std::size_t bytes) override;
  [[nodiscard]] Allocation allocate_pinned(std::size_t bytes) override;

  void when_short(std::function<void()> make_room) override { make_room_ = std::move(make_room); }

  std::string_view identity() const override { return identity_; }
  void adopt(void* stream) override;
  void* native_queue(Lane lane) override;
  [[nodiscard]] Mark mark(Lane lane) override;
  void wait(Lane lane, const Mark& mark) override;
  bool done(const Mark& mark) override;
  void join(const Mark& mark) override;
  [[nodiscard]] Mark timed_mark(Lane lane) override;
  std::optional<double> seconds_between(const Mark& earlier, const Mark& later) override;

  void copy(Lane lane, std::span<std::byte> to, std::span<const std::byte> from) override;
  void fill(Lane lane, std::span<std::byte> bytes, std::byte value) override;
  void run(Lane lane, const KernelCall& call) override;

 private:
  explicit CudaDevice(const DeviceRequest& request);
  cudaError_t make_streams();
  cudaStream_t stream(Lane lane) const { return streams_[static_cast<std::size_t>(lane)]; }
  // Makes this GPU the current one of the calling thread.
  void use(const char* operation) { check(cudaSetDevice(request_.index), operation); }
  void check(cudaError_t error, const char* operation);
  void clear(std::span<std::byte> bytes);
  Mark record(Lane lane, const std::shared_ptr<EventPool>& pool);

  // Returns memory; null if there is no room, even after others have freed some.
  void* find_room(std::size_t bytes);

  DeviceRequest request_;
  std::function<void()> make_room_;
  std::string name_;
  std::string identity_;  // bus address and machine
  int most_blocks_ = 1;
  std::array<cudaStream_t, kNumLanes> streams_{};
  cudaStream_t own_compute_ = nullptr;  // set while an adopted stream is kCompute
  bool adopted_ = false;
  std::shared_ptr<EventPool> events_, timed_events_;
};

}  // namespace zero
