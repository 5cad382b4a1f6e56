#include "app/cli/gpu_link.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/expect_says.h"
#include "tests/support/message_of.h"

namespace zero::cli {
namespace {

const DeviceLinkHere kLink{.available = true, .why = "libzero_transport_nccl.so"};

GpusHere gpus_here(std::size_t number) {
  GpusHere here;
  here.gpus.resize(number);
  here.reason = "there is no NVIDIA driver";
  return here;
}

Config config_on(const std::string& device) {
  Config config;
  config.run.device = device;
  return config;
}

std::string refusal(const std::string& device, std::size_t gpus, std::optional<int> ranks,
                    const DeviceLinkHere& link = kLink) {
  return message_of<ConfigError>([&] { require_gpu_link(config_on(device), gpus_here(gpus), ranks, link); });
}

TEST(GpuLink, NeedsOneGpuPerRank) {
  EXPECT_NO_THROW(require_gpu_link(config_on("cuda"), gpus_here(2), 2, kLink));
  EXPECT_NO_THROW(require_gpu_link(config_on("cuda:1"), gpus_here(2), 1, kLink));
  EXPECT_NO_THROW(require_gpu_link(config_on("cuda"), gpus_here(1), std::nullopt, kLink))
      << "the launcher assigns GPUs";
  expect_says(refusal("cuda", 2, 3),
              {"comm.transport = nccl: 3 ranks would share 2 GPUs, and NCCL refuses two ranks on one GPU",
               "start one rank for each GPU (-n 2), or leave out comm.transport"});
  expect_says(refusal("auto", 1, 2), {"2 ranks would share one GPU"});
  expect_says(refusal("cuda:1", 2, 2), {"2 ranks would share cuda:1", "use run.device cuda"});
}

TEST(GpuLink, RefusedOnCpuOrWithoutLibrary) {
  expect_says(refusal("auto", 0, 1), {"run.device auto is the CPU here: there is no NVIDIA driver"});
  const DeviceLinkHere old{.available = false, .why = "NCCL 2.17.3 is too old", .remedy = "install another"};
  expect_says(refusal("cuda", 2, 2, old), {"comm.transport = nccl: NCCL 2.17.3 is too old", "install another"});
}

}  // namespace
}  // namespace zero::cli
