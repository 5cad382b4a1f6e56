#include "zero/torch/seam/torch_device.h"

#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>

#include <ATen/Context.h>
#include <c10/core/Allocator.h>
#include <c10/core/AutogradState.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/version.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

// Returns the folder of the libtorch that this process uses.
std::filesystem::path folder_of_torch() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&c10::GetAllocator), &info) == 0 || info.dli_fname == nullptr) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

// Returns a GPU's allocator; null before libtorch has used the GPU.
c10::DeviceAllocator* allocator_of(c10::Device place) {
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(place.type()));
  return allocator != nullptr && allocator->initialized() ? allocator : nullptr;
}

}  // namespace

c10::Device place_of(const Device& device) {
  const std::string name(device.name());
  return name.starts_with("cuda") ? c10::Device(name) : c10::Device(c10::DeviceType::CPU);
}

std::optional<c10::Stream> adopt_stream(Device& device) {
  const c10::Device place = place_of(device);
  if (!place.is_cuda()) return std::nullopt;
  const c10::impl::VirtualGuardImpl guard(place.type());
  guard.setDevice(place);
  const c10::Stream stream = guard.getStream(place);
  device.adopt(stream.native_handle());
  return stream;
}

void require_stream(const std::optional<c10::Stream>& adopted) {
  if (!adopted) return;
  const c10::impl::VirtualGuardImpl guard(adopted->device_type());
  if (guard.getStream(adopted->device()) == *adopted) return;
  throw ConfigError("attach", "another stream",
                    "the module computes in another CUDA stream than the current one at attach(), and the engine waits "
                    "only for that one",
                    "call attach() within the same c10::cuda::CUDAStreamGuard (Python: torch.cuda.stream()), or the "
                    "module outside of it");
}

std::string try_torch_cuda() {
  const std::filesystem::path library = folder_of_torch() / "libtorch_cuda.so";
  std::error_code ignored;
  if (!std::filesystem::exists(library, ignored))
    return fmt::format("this is a wheel of torch without CUDA ({})", library.parent_path().string());
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) == nullptr) return dlerror();
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA))
    return fmt::format("{} does not belong to this libtorch", library.string());
  // Asks libtorch's hooks, which look for GPUs only once.
  return at::hasCUDA() ? ""
                       : fmt::format("libtorch {} finds no GPU: it was initialized too early, or the driver is too old",
                                     TORCH_VERSION);
}

void open_torch_cuda(std::string_view device) {
  const std::string why_not = try_torch_cuda();
  if (why_not.empty()) return;
  throw ConfigError("run.device", device, why_not,
                    fmt::format("use torch {} of CUDA 13 with all packages that pip installs with it (pip install "
                                "torch=={} --index-url https://download.pytorch.org/whl/cu130), or run.device cpu",
                                TORCH_VERSION, TORCH_VERSION));
}

void set_gpu_numerics(const GpuNumerics& numerics) {
  at::Context& context = at::globalContext();
  // These two functions set the old and the new switch: libtorch refuses to compute if the two switches differ.
  context.setAllowTF32CuBLAS(numerics.tf32);
  context.setAllowTF32CuDNN(numerics.tf32);
  if (!numerics.deterministic) return;
  // cuBLAS reads the variable when its handle is created, at the first product.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);  // zero.cpp reads no uninitialized memory
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

BackwardOnCaller::BackwardOnCaller(c10::Device place)
    : before_(c10::AutogradState::get_tls_state().get_multithreading_enabled()) {
  if (place.is_cuda()) c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}
BackwardOnCaller::~BackwardOnCaller() {
  c10::AutogradState::get_tls_state().set_multithreading_enabled(before_);
}

void share_memory(Device& device) {
  const c10::Device place = place_of(device);
  if (!place.is_cuda()) return;
  const auto empty_cache = [place] {
    if (c10::DeviceAllocator* const allocator = allocator_of(place)) allocator->emptyCache();
  };
  empty_cache();
  device.when_short(empty_cache);
}

std::int64_t held_by_torch(c10::Device place) {
  if (!place.is_cuda()) return 0;
  c10::DeviceAllocator* const allocator = allocator_of(place);
  if (allocator == nullptr) return 0;
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return allocator->getDeviceStats(place.index()).reserved_bytes[kAll].current;
}

}  // namespace zero
