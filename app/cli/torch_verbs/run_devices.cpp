#include "app/cli/torch_verbs/run_devices.h"

#include "zero/base/error/log.h"
#include "zero/torch/seam/torch_device.h"

#include "app/config/rules/device_rules.h"

namespace zero::cli {

RunDevices::RunDevices(const LoadedConfig& loaded) : name_(loaded.config.run.device) {
  if (name_ == "cpu") return;
  here_ = find_gpus(/*memory=*/false);
  if (device_of_rank(name_, 0, here_) == "cpu") {
    ZERO_LOG(debug, "run.device = auto: the CPU, because {}", here_.reason);
    return;
  }
  if (name_ == "auto") {
    if (const std::string why_not = try_torch_cuda(); !why_not.empty()) {
      ZERO_LOG(debug, "run.device = auto: the CPU, because {}", why_not);
      return;
    }
    require_works_on_gpu(loaded);
  } else {
    open_torch_cuda(name_);
  }
  on_gpu_ = true;
  set_gpu_numerics({.tf32 = loaded.config.train.tf32, .deterministic = loaded.config.run.deterministic});
}

std::string RunDevices::of_rank(int local_rank) const {
  return on_gpu_ ? device_of_rank(name_, local_rank, here_) : "cpu";
}

}  // namespace zero::cli
