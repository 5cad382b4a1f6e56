#include "app/config/rules/device_rules.h"

#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/device/device_name.h"

#include "app/config/options/option.h"

namespace zero {
namespace {

[[noreturn]] void refuse(const LoadedConfig& loaded, std::string_view name, std::string_view reason,
                         std::string_view remedy) {
  const auto origin = loaded.origins.find(name);
  throw ConfigError(located(origin == loaded.origins.end() ? "" : origin->second, name),
                    shown(to_toml(get_option(loaded.config, *find_option(name)))), reason, remedy);
}

void refuse_on_gpu(const LoadedConfig& loaded, std::string_view name, bool given, std::string_view what,
                   std::string_view remedy) {
  if (given)
    refuse(loaded, name, fmt::format("{} not work on a GPU (run.device = \"{}\")", what, loaded.config.run.device),
           fmt::format("{}, or use run.device cpu", remedy));
}

}  // namespace

void check_device(const LoadedConfig& loaded) {
  const std::optional<DeviceName> device = device_name(loaded.config.run.device);
  if (!device) refuse(loaded, "run.device", "there is no such device", "use auto, cpu, cuda or cuda:1");
  if (loaded.config.train.tf32 && device->kind == DeviceName::Kind::kCpu)
    refuse(loaded, "train.matmul", "a CPU always multiplies with all bits (run.device = \"cpu\")",
           "leave it out, or use run.device cuda");
  if (loaded.config.comm.transport == "nccl" && device->kind == DeviceName::Kind::kCpu)
    refuse(loaded, "comm.transport", "it moves bytes between GPUs (run.device = \"cpu\")",
           "use run.device cuda, or another transport");
  const auto& [engine, comm] = std::tie(loaded.config.engine, loaded.config.comm);
  if (engine.sums == RankSums::kLinked && (comm.transport != "nccl" || device->kind == DeviceName::Kind::kCpu))
    refuse(
        loaded, "zero.reduce",
        fmt::format("NCCL can sum only units that it moves between GPUs (run.device = \"{}\", comm.transport = \"{}\")",
                    loaded.config.run.device, comm.transport),
        "use run.device cuda with comm.transport nccl, or leave it out");
  if (engine.sums == RankSums::kLinked && engine.shards != Cut::kRange)
    refuse(loaded, "zero.shards",
           "NCCL sums only equal blocks (zero.reduce = \"nccl\"), and these shards are not equal",
           "use range, or leave zero.reduce out");
  if (device->is_gpu()) require_works_on_gpu(loaded);
}

void require_works_on_gpu(const LoadedConfig& loaded) {
  const AttachOptions& engine = loaded.config.engine;
  refuse_on_gpu(loaded, "sync.mode", loaded.config.local.on, "copies that train apart do", "use sync.mode sync");
  refuse_on_gpu(loaded, "sync.servers", engine.sync.servers > 0, "servers do",
                "use sync.mode sync with sync.servers 0");
  refuse_on_gpu(loaded, "train.leaves", loaded.config.train.leaves > 0, "sums in a tree do", "leave it out");
  if (engine.group > 0 && loaded.config.comm.transport == "nccl")
    refuse(loaded, "zero.group",
           "the host adds up the gradients of copies of the model, and comm.transport nccl bypasses the host",
           "leave it 0, or use comm.transport auto");
  if (engine.secondary_group > 0 && loaded.config.comm.transport == "nccl")
    refuse(loaded, "zero.secondary_group",
           "secondary parts of weights pass through the host, and comm.transport nccl bypasses the host",
           "leave it 0, or use comm.transport auto");
  for (const auto& [name, codec] :
       {std::pair("comm.gather_wire", engine.wire.gather), {"comm.reduce_wire", engine.wire.reduce}})
    if (loaded.config.comm.transport == "nccl" && codec != WireCodec::kNone)
      refuse(loaded, name, "the host encodes units for codecs, and comm.transport nccl bypasses the host",
             "leave it out, or use comm.transport auto");
  refuse_on_gpu(loaded, "zero.link_bandwidth", engine.offload.link_bytes_per_second > 0, "a simulated link does",
                "leave it out: a GPU has a real link");
}

}  // namespace zero
