#include "app/cli/gpu_link.h"

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/device/device_name.h"

namespace zero::cli {

void require_gpu_link(const Config& config, const GpusHere& here, std::optional<int> ranks,
                      const DeviceLinkHere& link) {
  constexpr std::string_view kOtherwise = "leave out comm.transport: bytes then pass through the host";
  const auto refuse = [](std::string_view reason, std::string_view remedy) {
    throw ConfigError("comm.transport", "nccl", reason, remedy);
  };
  const auto gpus = static_cast<int>(here.gpus.size());
  if (gpus == 0)
    refuse(fmt::format("it moves bytes between GPUs, and run.device {} is the CPU here: {}", config.run.device,
                       here.reason),
           "use another transport");
  if (!link.available) refuse(link.why, link.remedy);
  if (!ranks || *ranks == 1) return;
  if (device_name(config.run.device)->gpu)
    refuse(fmt::format("{} ranks would share {}, and NCCL refuses two ranks on one GPU", *ranks, config.run.device),
           fmt::format("use run.device cuda, or {}", kOtherwise));
  if (*ranks > gpus)
    refuse(fmt::format("{} ranks would share {}, and NCCL refuses two ranks on one GPU", *ranks,
                       gpus == 1 ? "one GPU" : fmt::format("{} GPUs", gpus)),
           fmt::format("start one rank for each GPU (-n {}), or {}", gpus, kOtherwise));
}

}  // namespace zero::cli
