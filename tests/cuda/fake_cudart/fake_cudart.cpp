// The functions of libcudart.so.13 that the plug-in calls, for machines without a GPU.
#include "tests/cuda/fake_cudart/fake_cudart.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <signal.h>

namespace {

zero::FakeCuda state;

struct FakeEvent {
  bool timed = false;
  int recorded = 0;  // number of this record among the records of all events
};
FakeEvent& fake(cudaEvent_t event) {
  return *reinterpret_cast<FakeEvent*>(event);
}

cudaError_t last_error = cudaSuccess;
// Names of kernels by the address of their host functions.
std::map<const void*, std::string>& kernel_names() {
  static std::map<const void*, std::string> names;
  return names;
}

long number_of(const char* variable, long otherwise) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? std::atol(value) : otherwise;
}

cudaError_t result(std::string_view function) {
  const char* const failing = std::getenv("FAKE_CUDA_FAIL");
  const std::string_view all = failing != nullptr ? failing : "";
  for (std::size_t at = all.find(function); at != std::string_view::npos; at = all.find(function, at + 1)) {
    const bool begins = at == 0 || all[at - 1] == ',';
    const std::size_t end = at + function.size();
    if (begins && end < all.size() && all[end] == '=')
      return last_error = static_cast<cudaError_t>(std::atoi(all.data() + end + 1));
  }
  return cudaSuccess;
}

}  // namespace

#define FAKE_RESULT()                                                                   \
  do {                                                                                  \
    if (const cudaError_t error = result(__func__); error != cudaSuccess) return error; \
  } while (false)

extern "C" {

zero::FakeCuda* fake_cuda_state() {
  return &state;
}

cudaError_t cudaDriverGetVersion(int* version) {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  if (sigismember(&blocked, SIGCHLD) == 0 || sigismember(&blocked, SIGTERM) == 0) state.asked_with_signals = true;
  FAKE_RESULT();
  *version = static_cast<int>(number_of("FAKE_CUDA_DRIVER", CUDART_VERSION));
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  FAKE_RESULT();
  *count = static_cast<int>(number_of("FAKE_CUDA_DEVICES", 2));
  return *count == 0 ? last_error = cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  FAKE_RESULT();
  const int capability = static_cast<int>(number_of("FAKE_CUDA_CAPABILITY", 90));
  *value = attribute == cudaDevAttrComputeCapabilityMajor   ? capability / 10
           : attribute == cudaDevAttrComputeCapabilityMinor ? capability % 10
                                                            : 132;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  FAKE_RESULT();
  const int capability = static_cast<int>(number_of("FAKE_CUDA_CAPABILITY", 90));
  std::snprintf(properties->name, sizeof properties->name, "Fake GPU %d", device);
  properties->major = capability / 10;
  properties->minor = capability % 10;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* place, int bytes, int device) {
  FAKE_RESULT();
  std::snprintf(place, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  FAKE_RESULT();
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  FAKE_RESULT();
  *available = static_cast<std::size_t>(number_of("FAKE_CUDA_FREE", 5L << 20));
  *total = std::size_t{80} << 30;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  FAKE_RESULT();
  *data = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  std::memset(*data, 0xaa, bytes);  // a GPU's memory is not cleared
  ++state.num_memories;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  std::free(data);
  --state.num_memories;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  FAKE_RESULT();
  // The memory does not begin on a page, as with small allocations of CUDA.
  auto* const memory = static_cast<char*>(std::aligned_alloc(4096, (bytes + 512 + 4095) / 4096 * 4096));
  std::memset(memory, 0xaa, bytes + 512);
  *data = memory + 512;
  ++state.num_pinned;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(static_cast<char*>(data) - 512);
  --state.num_pinned;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  FAKE_RESULT();
  if (flags != cudaStreamNonBlocking) return last_error = cudaErrorInvalidValue;
  *stream = reinterpret_cast<cudaStream_t>(std::malloc(1));
  ++state.num_streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::free(stream);
  --state.num_streams;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  FAKE_RESULT();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  FAKE_RESULT();
  ++state.num_waits;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  FAKE_RESULT();
  *event = reinterpret_cast<cudaEvent_t>(new FakeEvent{.timed = (flags & cudaEventDisableTiming) == 0});
  ++state.num_events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &fake(event);
  --state.num_events;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  FAKE_RESULT();
  fake(event).recorded = ++state.num_records;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  FAKE_RESULT();
  return state.num_ready_after-- > 0 ? last_error = cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  FAKE_RESULT();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t earlier, cudaEvent_t later) {
  FAKE_RESULT();
  if (!fake(earlier).timed || !fake(later).timed) return last_error = cudaErrorInvalidResourceHandle;
  *milliseconds = static_cast<float>(fake(later).recorded - fake(earlier).recorded);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  FAKE_RESULT();
  if (kind != cudaMemcpyDefault) return last_error = cudaErrorInvalidValue;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t) {
  FAKE_RESULT();
  std::memset(data, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorOfTheFake";
}
const char* cudaGetErrorString(cudaError_t error) {
  static char text[64];
  std::snprintf(text, sizeof text, "error %d", static_cast<int>(error));
  return text;
}

// Functions that nvcc's generated code calls.
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  kernel_names()[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t, cudaStream_t stream) {
  const bool possible = grid.x >= 1 && block.x >= 1 && block.x <= 1024 && stream != nullptr;
  return possible ? 0 : 1;
}
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) {
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, std::size_t, cudaStream_t) {
  if (const cudaError_t error = result("__cudaLaunchKernel"); error != cudaSuccess) return error;
  ++state.num_launches;
  std::snprintf(state.last_kernel, sizeof state.last_kernel, "%s",
                kernel_names()[reinterpret_cast<const void*>(kernel)].c_str());
  return cudaSuccess;
}

}  // extern "C"
