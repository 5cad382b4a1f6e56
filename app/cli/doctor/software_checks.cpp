#include <fmt/format.h>

#include "zero/comm/transport/open_transport.h"

#include "app/cli/command/torch_library.h"
#include "app/cli/doctor/finding.h"

namespace zero::cli {
namespace {

Finding libtorch(const TorchFound& torch) {
  if (!torch.loaded) {
    return {"libtorch", Health::kWarn, torch.problem,
            "train, plan and generate need it: ./quickstart.sh builds with libtorch; launch, inspect and bench work "
            "without"};
  }
  return {"libtorch", Health::kOk, fmt::format("{} at {}", torch.version, torch.path), ""};
}

// Returns why libtorch cannot use a GPU, or "". Without a GPU it only checks that libtorch contains its GPU code.
std::string why_no_gpu(const TorchFound& torch, const GpusHere& here) {
  if (!here.gpus.empty()) return why_torch_uses_no_gpu();
  return why_no_cuda_code(torch.loaded, torch.path);
}

}  // namespace

std::vector<Finding> check_software() {
  const TorchFound torch = probe_torch();
  const GpusHere gpus = find_gpus(/*memory=*/true);
  std::vector<Finding> findings{libtorch(torch), gpu_finding(gpus, why_no_gpu(torch, gpus))};
  for (const auto& transport : transport_statuses()) {
    const std::string subject = fmt::format("transport {}", transport.name);
    if (transport.available) {
      findings.push_back({subject, Health::kOk, transport.why, ""});
    } else {
      findings.push_back({subject, Health::kWarn, "not available", transport.why});
    }
  }
  return findings;
}

}  // namespace zero::cli
