#include "plugins/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>

#include <fmt/format.h>

namespace zero {
namespace {

// The event of a mark. It returns to its pool with the last copy of the mark.
struct Point {
  cudaEvent_t event = nullptr;
  std::shared_ptr<EventPool> pool;

  Point(cudaEvent_t taken, std::shared_ptr<EventPool> from) : event(taken), pool(std::move(from)) {}
  ~Point() { pool->give_back(event); }
  Point(const Point&) = delete;
  Point& operator=(const Point&) = delete;
};

std::string reason_of(cudaError_t error) {
  return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

// Clears the error that CUDA keeps for the next query in addition to returning it.
void forget_error() {
  static_cast<void>(cudaGetLastError());
}

// Returns an identifier that is the same in all containers of a machine, and changes when it boots.
std::string machine_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{} MiB", bytes >> 20);
}

}  // namespace

EventPool::~EventPool() {
  if (free_.empty() || cudaSetDevice(device_) != cudaSuccess) return;
  for (const cudaEvent_t event : free_) cudaEventDestroy(event);
}

cudaError_t EventPool::take(cudaEvent_t& event) {
  const std::lock_guard guard(mutex_);
  if (free_.empty()) return cudaEventCreateWithFlags(&event, flags_);
  event = free_.back();
  free_.pop_back();
  return cudaSuccess;
}

void EventPool::give_back(cudaEvent_t event) {
  const std::lock_guard guard(mutex_);
  free_.push_back(event);
}

CudaDevice::CudaDevice(const DeviceRequest& request)
    : request_(request),
      name_(fmt::format("cuda:{}", request.index)),
      events_(std::make_shared<EventPool>(request.index, cudaEventDisableTiming)),
      timed_events_(std::make_shared<EventPool>(request.index, cudaEventDefault)) {}

CudaDevice::~CudaDevice() {
  if (cudaSetDevice(request_.index) != cudaSuccess) return;
  if (adopted_) {
    cudaStreamSynchronize(stream(Lane::kCompute));
    streams_[static_cast<std::size_t>(Lane::kCompute)] = own_compute_;
  }
  for (const cudaStream_t stream : streams_) {
    if (stream == nullptr) continue;
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }
}

void CudaDevice::adopt(void* stream) {
  cudaStream_t& compute = streams_[static_cast<std::size_t>(Lane::kCompute)];
  if (!adopted_) own_compute_ = compute;
  adopted_ = true;
  compute = static_cast<cudaStream_t>(stream);
}

void* CudaDevice::native_queue(Lane lane) {
  use("hand out a stream");
  return stream(lane);
}

cudaError_t CudaDevice::make_streams() {
  int processors = 1;
  cudaError_t error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, request_.index);
  constexpr int kBlocksOfAProcessor = 8;  // blocks of 256 threads: a processor's capacity
  most_blocks_ = std::max(1, processors) * kBlocksOfAProcessor;
  char place[32] = {};
  if (error == cudaSuccess) error = cudaDeviceGetPCIBusId(place, sizeof place, request_.index);
  identity_ = fmt::format("{} of machine {}", place, machine_id());
  for (cudaStream_t& stream : streams_) {
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  }
  return error;
}

void CudaDevice::check(cudaError_t error, const char* operation) {
  if (error == cudaSuccess) return;
  forget_error();
  request_.fail(fmt::format("{}: {}: {}", name_, operation, reason_of(error)).c_str());
}

void CudaDevice::clear(std::span<std::byte> bytes) {
  check(cudaMemsetAsync(bytes.data(), 0, bytes.size(), stream(Lane::kUp)), "clear memory");
  check(cudaStreamSynchronize(stream(Lane::kUp)), "clear memory");
}

void* CudaDevice::find_room(std::size_t bytes) {
  void* data = nullptr;
  cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaErrorMemoryAllocation && make_room_) {
    forget_error();
    make_room_();
    use("allocate");
    error = cudaMalloc(&data, bytes);
  }
  if (error == cudaErrorMemoryAllocation) {
    forget_error();
    return nullptr;
  }
  check(error, "allocate");
  return data;
}

Allocation CudaDevice::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  use("allocate");
  void* const data = find_room(bytes);
  if (data == nullptr) {
    std::size_t available = 0, total = 0;
    check(cudaMemGetInfo(&available, &total), "read the amount of free memory");
    request_.short_of_memory(
        bytes, fmt::format("{} has {} of its {} free", name_, mebibytes(available), mebibytes(total)).c_str(),
        "end other programs that use it (nvidia-smi shows them), or use more ranks, a higher stage, a smaller "
        "zero.device_memory or a smaller model");
  }
  Allocation memory(static_cast<std::byte*>(data), bytes, [index = request_.index](std::byte* at, std::size_t) {
    if (cudaSetDevice(index) == cudaSuccess) cudaFree(at);
  });
  clear(memory.bytes());
  return memory;
}

Allocation CudaDevice::allocate_pinned(std::size_t bytes) {
  if (bytes == 0) return {};
  use("pin memory");
  // CUDA returns parts of pages, so align to a page.
  constexpr std::size_t kPage = 4096;
  void* base = nullptr;
  const cudaError_t error = cudaHostAlloc(&base, bytes + kPage, cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation) {
    forget_error();
    request_.short_of_host_memory(bytes, "the system cannot pin that much memory of the host",
                                  "free memory of the host, or use a smaller zero.host_memory");
  }
  check(error, "pin memory");
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  auto* const data = static_cast<std::byte*>(base) + ((address + kPage - 1) / kPage * kPage - address);
  std::memset(data, 0, bytes);
  return {data, bytes, [index = request_.index, base](std::byte*, std::size_t) {
            if (cudaSetDevice(index) == cudaSuccess) cudaFreeHost(base);
          }};
}

Mark CudaDevice::mark(Lane lane) {
  return record(lane, events_);
}

Mark CudaDevice::timed_mark(Lane lane) {
  return record(lane, timed_events_);
}

// The driver keeps 24 bits of the milliseconds, which is accurate to some microseconds in a step of a minute.
std::optional<double> CudaDevice::seconds_between(const Mark& earlier, const Mark& later) {
  float milliseconds = 0;
  const cudaError_t error = cudaEventElapsedTime(&milliseconds, earlier.as<Point>().event, later.as<Point>().event);
  if (error == cudaErrorNotReady) {
    forget_error();
    return {};
  }
  check(error, "read times of marks");
  return milliseconds * 1e-3;
}

Mark CudaDevice::record(Lane lane, const std::shared_ptr<EventPool>& pool) {
  use("mark");
  cudaEvent_t event = nullptr;
  check(pool->take(event), "mark");
  const auto point = std::make_shared<const Point>(event, pool);
  check(cudaEventRecord(event, stream(lane)), "mark");
  return Mark(point);
}

void CudaDevice::wait(Lane lane, const Mark& mark) {
  if (mark.empty()) return;
  use("wait");
  check(cudaStreamWaitEvent(stream(lane), mark.as<Point>().event, 0), "wait");
}

bool CudaDevice::done(const Mark& mark) {
  if (mark.empty()) return true;
  const cudaError_t error = cudaEventQuery(mark.as<Point>().event);
  if (error == cudaErrorNotReady) {
    forget_error();
    return false;
  }
  check(error, "look at a mark");
  return true;
}

void CudaDevice::join(const Mark& mark) {
  if (!mark.empty()) check(cudaEventSynchronize(mark.as<Point>().event), "wait on the host");
}

void CudaDevice::copy(Lane lane, std::span<std::byte> to, std::span<const std::byte> from) {
  if (to.size() != from.size())
    request_.fail(fmt::format("{}: {} bytes are copied to {}", name_, from.size(), to.size()).c_str());
  if (to.empty()) return;
  use("copy");
  check(cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyDefault, stream(lane)), "copy");
}

void CudaDevice::fill(Lane lane, std::span<std::byte> bytes, std::byte value) {
  if (bytes.empty()) return;
  use("fill");
  check(cudaMemsetAsync(bytes.data(), std::to_integer<int>(value), bytes.size(), stream(lane)), "fill");
}

void CudaDevice::run(Lane lane, const KernelCall& call) {
  const LaunchPlace place{.stream = stream(lane), .most_blocks = most_blocks_};
  for (const auto codes : {element_kernels(), update_kernels(), sum_kernels(), factor_kernels(), matrix_kernels()}) {
    const auto code = std::ranges::find(codes, call.kernel.name, &KernelCode::name);
    if (code == codes.end()) continue;
    use("run");
    return check(code->launch(place, call.arguments.data()), code->name.data());
  }
  request_.fail(fmt::format("{} has no code for the kernel '{}'", name_, call.kernel.name).c_str());
}

}  // namespace zero
