#include <fmt/format.h>

#include "zero/command/torch_library.h"
#include "zero/doctor/finding.h"
#include "zero/transport/open_transport.h"

namespace zero::cli {
namespace {

Finding libtorch() {
  const TorchFound torch = probe_torch();
  if (!torch.loaded) {
    return {"libtorch", Health::kWarn, torch.problem,
            "train, plan and generate need it: ./quickstart.sh builds with libtorch; launch, inspect and bench work "
            "without"};
  }
  return {"libtorch", Health::kOk, fmt::format("{} at {}", torch.version, torch.path), ""};
}

}  // namespace

std::vector<Finding> check_software() {
  std::vector<Finding> findings{libtorch()};
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
