#include "zero/device/open_device.h"

#include <charconv>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>

#include "zero/base/bytes.h"
#include "zero/base/error.h"
#include "zero/base/log.h"
#include "zero/base/plugin_file.h"
#include "zero/device/device_border.h"
#include "zero/device/host_device.h"

namespace zero {
namespace {

constexpr std::string_view kKey = "run.device";

struct WhyNot {
  bool none_here = false;  // this machine has no GPU, or this build no code for one
  std::string reason, remedy;
};

[[noreturn]] void device_failed(const char* what) {
  throw DeviceError(what);
}

[[noreturn]] void device_is_full(std::size_t bytes, const char* reason, const char* remedy) {
  throw ConfigError("memory", format_bytes(static_cast<std::int64_t>(bytes)), reason, remedy);
}

// The plug-in stays loaded for the life of the process.
OpenDevice find_entry(const std::string& plugin, WhyNot& why_not) {
  if (plugin.empty()) {
    why_not = {true, "libzero_device_cuda.so is not there", "build with -DZERO_CUDA=ON, or use cpu"};
    return nullptr;
  }
  void* const library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    why_not = {false, dlerror(), "install CUDA's runtime, libcudart, where the loader finds it, or use cpu"};
    return nullptr;
  }
  const auto entry = reinterpret_cast<OpenDevice>(dlsym(library, "zero_open_device"));
  if (entry == nullptr) why_not = {false, plugin + " is no plug-in of zero.cpp", "install zero.cpp anew, or use cpu"};
  return entry;
}

std::unique_ptr<Device> open_cuda(const std::string& plugin, int index, WhyNot& why_not) {
  const OpenDevice open = find_entry(plugin, why_not);
  if (open == nullptr) return nullptr;
  const DeviceRequest request{.index = index, .fail = &device_failed, .short_of_memory = &device_is_full};
  DeviceFailure failure;
  std::unique_ptr<Device> device(open(&request, &failure));
  if (device == nullptr) why_not = {failure.kind != DeviceFailure::Kind::kOther, failure.reason, failure.remedy};
  return device;
}

// The number of "cuda" or "cuda:N".
std::optional<int> cuda_index(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  const std::string_view digits = name.substr(5);
  int index = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), index);
  if (error != std::errc() || end != digits.end() || index < 0) return std::nullopt;
  return index;
}

}  // namespace

std::string cuda_plugin() {
  return plugin_file("libzero_device_cuda.so");
}

std::unique_ptr<Device> open_device(std::string_view name, const std::string& plugin) {
  if (name == "cpu") return std::make_unique<HostDevice>();
  const bool automatic = name == "auto";
  const std::optional<int> index = automatic ? 0 : cuda_index(name);
  if (!index) throw ConfigError(kKey, name, "there is no such device", "use auto, cpu, cuda or cuda:1");
  WhyNot why_not;
  std::unique_ptr<Device> device = open_cuda(plugin, *index, why_not);
  if (device != nullptr) return device;
  if (!automatic || !why_not.none_here) throw ConfigError(kKey, name, why_not.reason, why_not.remedy);
  ZERO_LOG(debug, "{} = auto: the CPU, because {}", kKey, why_not.reason);
  return std::make_unique<HostDevice>();
}

}  // namespace zero
