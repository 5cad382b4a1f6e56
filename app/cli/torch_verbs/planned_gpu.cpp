#include "app/cli/torch_verbs/planned_gpu.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zero/device/device_name.h"
#include "zero/torch/seam/torch_device.h"

#include "app/cli/torch_verbs/run_devices.h"
#include "app/config/rules/device_rules.h"

namespace zero::cli {

void look_at_gpu(const LoadedConfig& loaded, bool trains, PlannedMachine& machine) {
  const std::optional<DeviceName> device = device_name(loaded.config.run.device);
  if (!device || device->kind == DeviceName::Kind::kCpu) return;
  if (trains) static_cast<void>(RunDevices(loaded));
  const GpusHere here = find_gpus(/*memory=*/true);
  if (device->is_auto() && (here.gpus.empty() || !try_torch_cuda().empty())) return;
  if (device->is_auto()) require_works_on_gpu(loaded);
  const int gpus = std::max(static_cast<int>(here.gpus.size()), 1);
  machine.ranks_on_gpu = device->gpu ? machine.ranks : (machine.ranks + gpus - 1) / gpus;
  machine.lower_free_bytes.host = std::exchange(machine.free_bytes, 0);
  if (here.gpus.empty()) {
    machine.why_free_not_known = here.reason;
    return;
  }
  // The ranks of a run agree on the least free memory of their GPUs.
  const int first = device->gpu.value_or(0), last = device->gpu.value_or(std::min(machine.ranks, gpus) - 1);
  for (int number = first; number <= last; ++number) {
    const Gpu gpu = number < gpus ? here.gpus[static_cast<std::size_t>(number)] : Gpu{};
    if (gpu.free_bytes < 0) {
      machine.why_free_not_known = fmt::format("no driver on this machine lists cuda:{}", number);
      return;
    }
    if (!machine.gpu.empty() && gpu.free_bytes >= machine.free_bytes) continue;
    machine.gpu = fmt::format("cuda:{} {}", number, gpu.name);
    machine.free_bytes = gpu.free_bytes;
  }
}

}  // namespace zero::cli
