#include "zero/device/open_device.h"

#include <algorithm>
#include <optional>
#include <span>

#include <dlfcn.h>
#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/files/plugin_file.h"
#include "zero/base/process/signals_blocked.h"
#include "zero/base/text/bytes.h"
#include "zero/device/device_border.h"
#include "zero/device/device_name.h"
#include "zero/device/host_device.h"

namespace zero {
namespace {

constexpr std::string_view kKey = "run.device";

struct WhyNot {
  bool none_here = false;  // this machine has no GPU, or this build has no GPU code
  std::string reason, remedy;
};

[[noreturn]] void device_failed(const char* what) {
  throw DeviceError(what);
}

[[noreturn]] void device_is_full(std::size_t bytes, const char* reason, const char* remedy) {
  throw ConfigError("memory", format_bytes(static_cast<std::int64_t>(bytes)), reason, remedy);
}

[[noreturn]] void host_is_short(std::size_t bytes, const char* reason, const char* remedy) {
  throw ConfigError("zero.host_memory", format_bytes(static_cast<std::int64_t>(bytes)), reason, remedy);
}

// Finds a function of the plug-in, which stays loaded until the process ends.
template <typename Function>
Function find_entry(const std::string& plugin, const char* function, WhyNot& why_not) {
  if (plugin.empty()) {
    why_not = {true, "libzero_device_cuda.so is not installed", "build with -DZERO_CUDA=ON, or use cpu"};
    return nullptr;
  }
  void* const library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    why_not = {false, dlerror(), "install CUDA's runtime, libcudart, in a folder of the loader, or use cpu"};
    return nullptr;
  }
  const auto entry = reinterpret_cast<Function>(dlsym(library, function));
  if (entry == nullptr)
    why_not = {false, plugin + " is not a plug-in of zero.cpp", "install zero.cpp again, or use cpu"};
  return entry;
}

// The driver starts threads at its first call. They must take no signals, like our workers. A signal that such a thread
// took would end the process, even if another thread waits for it.
std::unique_ptr<Device> open_cuda(const std::string& plugin, int index, WhyNot& why_not) {
  const SignalsBlocked blocked;
  const auto open = find_entry<OpenDevice>(plugin, "zero_open_device", why_not);
  if (open == nullptr) return nullptr;
  const DeviceRequest request{.index = index,
                              .fail = &device_failed,
                              .short_of_memory = &device_is_full,
                              .short_of_host_memory = &host_is_short};
  DeviceFailure failure;
  std::unique_ptr<Device> device(open(&request, &failure));
  if (device == nullptr) why_not = {failure.kind != DeviceFailure::Kind::kOther, failure.reason, failure.remedy};
  return device;
}

DeviceName known(std::string_view name) {
  const std::optional<DeviceName> device = device_name(name);
  if (!device) throw ConfigError(kKey, name, "there is no such device", "use auto, cpu, cuda or cuda:1");
  return *device;
}

GpusHere ask(GpuList list, const std::string& plugin) {
  const SignalsBlocked blocked;
  GpusHere here;
  WhyNot why_not;
  const auto find = find_entry<FindGpus>(plugin, "zero_find_gpus", why_not);
  DeviceFailure failure;
  if (find != nullptr && !find(&list, &failure))
    why_not = {failure.kind != DeviceFailure::Kind::kOther, failure.reason, failure.remedy};
  if (list.driver > 0) here.driver = fmt::format("{}.{}", list.driver / 1000, list.driver % 1000 / 10);
  for (const GpuFacts& gpu : std::span(list.gpus).first(static_cast<std::size_t>(list.num_gpus)))
    here.gpus.push_back({.name = gpu.name,
                         .capability = gpu.capability,
                         .free_bytes = gpu.has_memory ? static_cast<std::int64_t>(gpu.free_bytes) : -1,
                         .total_bytes = gpu.has_memory ? static_cast<std::int64_t>(gpu.total_bytes) : -1});
  here.none_here = why_not.none_here;
  here.reason = why_not.reason;
  here.remedy = why_not.remedy;
  return here;
}

}  // namespace

std::string cuda_plugin() {
  return plugin_file("libzero_device_cuda.so");
}

std::unique_ptr<Device> open_device(std::string_view name, const std::string& plugin) {
  const DeviceName wanted = known(name);
  if (wanted.kind == DeviceName::Kind::kCpu) return std::make_unique<HostDevice>();
  WhyNot why_not;
  std::unique_ptr<Device> device = open_cuda(plugin, wanted.gpu.value_or(0), why_not);
  if (device != nullptr) return device;
  if (!wanted.is_auto() || !why_not.none_here) throw ConfigError(kKey, name, why_not.reason, why_not.remedy);
  ZERO_LOG(debug, "{} = auto: the CPU, because {}", kKey, why_not.reason);
  return std::make_unique<HostDevice>();
}

GpusHere find_gpus(bool memory, const std::string& plugin) {
  return ask({.looks_at_memory = memory}, plugin);
}

std::string gpu_name(std::string_view device, const std::string& plugin) {
  const std::optional<DeviceName> name = device_name(device);
  if (!name || !name->gpu) return "";
  const GpusHere here = ask({.looks_at_memory = false}, plugin);
  const auto index = static_cast<std::size_t>(*name->gpu);
  return index < here.gpus.size() ? here.gpus[index].name : "";
}

std::optional<std::int64_t> free_bytes_of(const Device& device, const std::string& plugin) {
  const std::optional<DeviceName> name = device_name(device.name());
  if (!name || !name->gpu) return std::nullopt;
  const GpusHere here = ask({.looks_at_memory = true, .only = *name->gpu}, plugin);
  const auto index = static_cast<std::size_t>(*name->gpu);
  if (index >= here.gpus.size() || here.gpus[index].free_bytes < 0) return std::nullopt;
  return here.gpus[index].free_bytes;
}

std::string device_of_rank(std::string_view name, int local_rank, const GpusHere& here) {
  const DeviceName wanted = known(name);
  if (wanted.kind == DeviceName::Kind::kCpu) return "cpu";
  const auto count = static_cast<int>(here.gpus.size());
  if (count > 0 && wanted.gpu.value_or(0) >= count)
    throw ConfigError(kKey, name,
                      fmt::format("there {} {} GPU{}", count == 1 ? "is" : "are", count, count == 1 ? "" : "s"),
                      fmt::format("use cuda:0{}", count == 1 ? "" : fmt::format(" to cuda:{}", count - 1)));
  if (count > 0) return of_rank(wanted, local_rank, count);
  if (wanted.is_auto() && here.none_here) return "cpu";
  throw ConfigError(kKey, name, here.reason, here.remedy);
}

}  // namespace zero
