// Entry of the plug-in: checks driver and GPU, in the order in which a user can fix them, and opens the GPU.
#include <algorithm>
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "plugins/cuda/cuda_device.h"

namespace zero {
namespace {

constexpr int kLeastCapability = 80;  // lowest capability that the kernels are compiled for

void report(DeviceFailure& failure, DeviceFailure::Kind kind, std::string_view reason, std::string_view remedy) {
  failure.kind = kind;
  std::snprintf(failure.reason, sizeof failure.reason, "%.*s", static_cast<int>(reason.size()), reason.data());
  std::snprintf(failure.remedy, sizeof failure.remedy, "%.*s", static_cast<int>(remedy.size()), remedy.data());
}

std::string version_of(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

bool has_driver(DeviceFailure& failure) {
  using Kind = DeviceFailure::Kind;
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    report(failure, Kind::kNoDriver, "there is no NVIDIA driver", "install one for CUDA 13 (580 or later), or use cpu");
    return false;
  }
  // A driver supports all minor versions of its major version.
  if (driver / 1000 >= CUDART_VERSION / 1000) return true;
  report(failure, Kind::kOther,
         fmt::format("the driver is too old: it supports CUDA {}, and zero.cpp is built with {}", version_of(driver),
                     version_of(CUDART_VERSION)),
         "install driver 580 or later, or use cpu");
  return false;
}

// Returns the number of GPUs; 0: see `failure`.
int count_gpus(DeviceFailure& failure) {
  using Kind = DeviceFailure::Kind;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    report(failure, Kind::kNoDevice, "there is no GPU", "CUDA_VISIBLE_DEVICES may hide it; or use cpu");
  } else if (error != cudaSuccess) {
    report(failure, Kind::kOther, fmt::format("the driver does not list GPUs: {}", cudaGetErrorString(error)),
           "run nvidia-smi to learn more; or use cpu");
  }
  static_cast<void>(cudaGetLastError());
  return error == cudaSuccess ? count : 0;
}

bool has_device(int index, DeviceFailure& failure) {
  const int count = count_gpus(failure);
  if (index < count) return true;
  if (count > 0)
    report(failure, DeviceFailure::Kind::kOther,
           fmt::format("there {} {} GPU{}", count == 1 ? "is" : "are", count, count == 1 ? "" : "s"),
           fmt::format("use cuda:0{}", count == 1 ? "" : fmt::format(" to cuda:{}", count - 1)));
  return false;
}

bool is_new_enough(int index, DeviceFailure& failure) {
  int major = 0, minor = 0;
  const bool known = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) == cudaSuccess &&
                     cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) == cudaSuccess;
  if (known && 10 * major + minor >= kLeastCapability) return true;
  report(failure, DeviceFailure::Kind::kOther,
         fmt::format("cuda:{} has compute capability {}.{}, and zero.cpp needs {}.{}", index, major, minor,
                     kLeastCapability / 10, kLeastCapability % 10),
         "use another GPU, or cpu");
  return false;
}

void look_at(int index, bool looks_at_memory, GpuFacts& facts) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, index) == cudaSuccess) {
    std::snprintf(facts.name, sizeof facts.name, "%s", properties.name);
    facts.capability = 10 * properties.major + properties.minor;
  }
  facts.has_memory = looks_at_memory && cudaSetDevice(index) == cudaSuccess &&
                     cudaMemGetInfo(&facts.free_bytes, &facts.total_bytes) == cudaSuccess;
  static_cast<void>(cudaGetLastError());
}

bool is_of_this_version(int version, DeviceFailure& failure) {
  if (version == kDeviceVersion) return true;
  report(failure, DeviceFailure::Kind::kOther, "libzero_device_cuda.so belongs to another version of zero.cpp",
         "install zero.cpp again, or use cpu");
  return false;
}

void report_context(cudaError_t error, int index, DeviceFailure& failure) {
  const std::string reason =
      error == cudaErrorMemoryAllocation ? fmt::format("cuda:{} has no memory left for another program", index)
      : error == cudaErrorDevicesUnavailable
          ? fmt::format("cuda:{} is in use by another program, and set to one at a time", index)
          : fmt::format("cuda:{} cannot be used: {} ({})", index, cudaGetErrorString(error), cudaGetErrorName(error));
  report(failure, DeviceFailure::Kind::kOther, reason,
         "end the program that uses it (nvidia-smi shows it), or use another GPU, or cpu");
}

}  // namespace

std::unique_ptr<CudaDevice> CudaDevice::open(const DeviceRequest& request, DeviceFailure& failure) {
  if (!has_driver(failure) || !has_device(request.index, failure) || !is_new_enough(request.index, failure))
    return nullptr;
  cudaError_t error = cudaSetDevice(request.index);  // creates the context
  std::unique_ptr<CudaDevice> device;
  if (error == cudaSuccess) {
    device.reset(new CudaDevice(request));
    error = device->make_streams();
  }
  if (error == cudaSuccess) return device;
  static_cast<void>(cudaGetLastError());
  report_context(error, request.index, failure);
  return nullptr;
}

}  // namespace zero

extern "C" __attribute__((visibility("default"))) zero::Device* zero_open_device(const zero::DeviceRequest* request,
                                                                                 zero::DeviceFailure* failure) {
  using zero::DeviceFailure;
  try {
    if (!zero::is_of_this_version(request->version, *failure)) return nullptr;
    return zero::CudaDevice::open(*request, *failure).release();
  } catch (const std::exception& error) {
    zero::report(*failure, DeviceFailure::Kind::kOther, error.what(), "use cpu");
    return nullptr;
  }
}

extern "C" __attribute__((visibility("default"))) bool zero_find_gpus(zero::GpuList* list,
                                                                      zero::DeviceFailure* failure) {
  using zero::GpuList;
  try {
    if (!zero::is_of_this_version(list->version, *failure)) return false;
    if (cudaDriverGetVersion(&list->driver) != cudaSuccess) list->driver = 0;
    if (!zero::has_driver(*failure)) return false;
    list->num_gpus = std::min(zero::count_gpus(*failure), GpuList::kMost);
    for (int index = 0; index < list->num_gpus; ++index) {
      const bool is_meant = list->only < 0 || list->only == index;
      zero::look_at(index, list->looks_at_memory && is_meant, list->gpus[index]);
    }
    return list->num_gpus > 0;
  } catch (const std::exception& error) {
    zero::report(*failure, zero::DeviceFailure::Kind::kOther, error.what(), "use cpu");
    return false;
  }
}
