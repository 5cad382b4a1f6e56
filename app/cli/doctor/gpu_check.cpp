#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/text/bytes.h"

#include "app/cli/doctor/finding.h"

namespace zero::cli {
namespace {

std::string shown(const Gpu& gpu, std::size_t number) {
  std::string text = fmt::format("cuda:{} {}", number, gpu.name.empty() ? "without a name" : gpu.name);
  if (gpu.free_bytes >= 0)
    text += fmt::format(", {} of {} free", format_bytes(gpu.free_bytes), format_bytes(gpu.total_bytes));
  return text;
}

}  // namespace

// The row libtorch says so if none is loaded.
std::string why_no_cuda_code(bool is_loaded, const std::filesystem::path& library) {
  std::error_code ignored;
  const bool has_code = std::filesystem::exists(library.parent_path() / "libtorch_cuda.so", ignored);
  return !is_loaded || has_code ? "" : "torch is a wheel without CUDA";
}

// A machine without a GPU is fine: zero.cpp is tested on the CPU.
Finding gpu_finding(const GpusHere& here, const std::string& why_no_torch) {
  if (here.gpus.empty() && here.none_here)
    return {"GPU", Health::kOk,
            fmt::format("none: {}{}; run.device = \"auto\" is the CPU", here.reason,
                        why_no_torch.empty() ? "" : "; " + why_no_torch),
            ""};
  if (here.gpus.empty()) return {"GPU", Health::kWarn, fmt::format("cannot be used: {}", here.reason), here.remedy};
  std::vector<std::string> gpus;
  for (std::size_t number = 0; number < here.gpus.size(); ++number) gpus.push_back(shown(here.gpus[number], number));
  Finding finding{"GPU", Health::kOk,
                  fmt::format("{}; driver for CUDA {}, plug-in found", fmt::join(gpus, "; "), here.driver), ""};
  if (why_no_torch.empty()) {
    finding.found += ", torch with CUDA";
    return finding;
  }
  finding.health = Health::kWarn;
  finding.found += fmt::format(", but libtorch cannot use it: {}; run.device = \"auto\" is the CPU", why_no_torch);
  finding.remedy = "install a wheel of torch with CUDA 13, and what pip installs beside it (docs/gpu.md)";
  return finding;
}

}  // namespace zero::cli
