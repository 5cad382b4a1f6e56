// run.device on a machine without a GPU: which commands are refused, and which work.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/device/open_device.h"

#include "tests/cli/command.h"
#include "tests/support/expect_contains.h"
#include "tests/support/one_line.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

constexpr const char* kSmall = R"([model]
layers = 1
width = 8
heads = 2
context = 16
[data]
path = "input.txt"
[train]
steps = 3
batch = 2
[run]
dir = "run"
threads = 1
)";

class DeviceOfARun : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("c.toml", kSmall);
    std::string text;
    for (int i = 0; i < 400; ++i) text += "a line of text\n";
    folder_.write("input.txt", text);
  }
  Ran zero(const std::string& arguments) const { return folder_.zero(arguments); }
  bool left_nothing() const { return !std::filesystem::exists(folder_.path() / "run"); }
  const Folder& folder() const { return folder_; }

 private:
  Folder folder_;
};

TEST_F(DeviceOfARun, MissingGpuEndsBeforeWriting) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
  if (!find_gpus(/*memory=*/false).gpus.empty()) GTEST_SKIP() << "a GPU is there";
  for (const char* ranks : {"", " -n 2"}) {
    const Ran ran = zero(std::string("train c.toml --run.device cuda") + ranks);
    EXPECT_EQ(ran.status, 2) << ran.errors;
    EXPECT_CONTAINS(ran.errors, "run.device = cuda: ");
    EXPECT_CONTAINS(ran.errors, "cpu");
    EXPECT_TRUE(left_nothing());
  }
}

TEST_F(DeviceOfARun, UnsupportedOptionsAreRefusedBeforeLibtorch) {
  const Ran ran = zero("train c.toml --run.device cuda --zero.link_bandwidth 1GiB");
  EXPECT_EQ(ran.status, 2);
  EXPECT_CONTAINS(ran.errors, "zero.link_bandwidth = ");
  EXPECT_CONTAINS(ran.errors, "a simulated link does not work on a GPU");
  EXPECT_TRUE(left_nothing());
}

TEST_F(DeviceOfARun, UnknownDeviceListsTheKnown) {
  const Ran ran = zero("train c.toml --run.device gpu");
  EXPECT_EQ(ran.status, 2);
  EXPECT_CONTAINS(ran.errors, "use auto, cpu, cuda or cuda:1");
  const Ran matmul = zero("train c.toml --train.matmul tf32");
  EXPECT_EQ(matmul.status, 2);
  EXPECT_CONTAINS(matmul.errors, "a CPU always multiplies with all bits");
}

// On a machine without a GPU, `auto` is the CPU, and the run prints no warning.
TEST_F(DeviceOfARun, AutoKeepsTheCpusBits) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
  if (!find_gpus(/*memory=*/false).none_here) GTEST_SKIP() << "a GPU or a driver is there";
  const Ran cpu = zero("train c.toml --run.dir cpu"), automatic = zero("train c.toml --run.dir auto --run.device auto");
  ASSERT_EQ(automatic.status, 0) << automatic.errors;
  EXPECT_EQ(automatic.errors, "");
  const auto of_run = [this](const std::string& dir) {
    return nlohmann::json::parse(folder().read(dir + "/report.json"), nullptr, false);
  };
  EXPECT_FALSE(of_run("cpu")["losses"].empty());
  EXPECT_EQ(of_run("cpu")["losses"], of_run("auto")["losses"]);
  EXPECT_EQ(cpu.status, 0);
}

TEST_F(DeviceOfARun, RemoteGpuPlanListsTheNeeds) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
  if (!find_gpus(/*memory=*/false).gpus.empty()) GTEST_SKIP() << "a GPU is there";
  const Ran plan = zero("plan c.toml --world 2 --run.device cuda");
  EXPECT_EQ(plan.status, 0) << plan.errors;
  EXPECT_CONTAINS(plan.output, "of a GPU need");
  EXPECT_CONTAINS(plan.output, "not known here");
  EXPECT_EQ(zero("train c.toml --dry-run --run.device cuda").status, 2);
}

TEST_F(DeviceOfARun, GpuPlanExplainsMissingTimes) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
  if (!find_gpus(/*memory=*/false).gpus.empty()) GTEST_SKIP() << "a GPU is there";
  const Ran plan = zero("plan c.toml --run.device cuda");
  EXPECT_EQ(plan.status, 0) << plan.errors;
  EXPECT_CONTAINS(one_line(plan.output),
                  "time not known: the speed of a GPU is not probed here. --profile RUN has it from a run on such a "
                  "GPU. A file with flops");
  folder().write("one.toml", "[cluster]\nhosts = 1\nranks = 1\nflops = 4e14\n");
  const auto json =
      nlohmann::json::parse(zero("plan c.toml --run.device cuda --json --cluster one.toml").output, nullptr, false);
  EXPECT_GT(json["cluster"]["computation_seconds"].get<double>(), 0) << json.dump();
  EXPECT_FALSE(json.contains("predicted"));
  folder().write("no_flops.toml", "[cluster]\nhosts = 1\nranks = 1\n");
  const Ran unknown = zero("plan c.toml --run.device cuda --cluster no_flops.toml");
  EXPECT_EQ(unknown.status, 2) << "the CPU's speed is not a GPU's";
  EXPECT_CONTAINS(unknown.errors, "cluster.flops");
}

// The report of a run on `device`.
std::string report_of(const std::string& device, const std::string& more) {
  return R"({"system": "zero.cpp", "world": 1, "device": ")" + device +
         R"(", "profile": {"forward_seconds": 0.5, "backward_seconds": 1.25, "update_seconds": 0.25, )"
         R"("states_on_device": true})" +
         more + "}";
}
constexpr const char* kRatesOfGpu =
    R"(, "rates": {"link_up": 1e6, "link_down": 2e6, "disk_read": 0, "disk_write": 0, "disk_share": 1,
    "host_updates": 1e6, "device_updates": 1e9})";

TEST_F(DeviceOfARun, RemoteGpuPlanIgnoresThisHost) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
  if (!find_gpus(/*memory=*/false).gpus.empty()) GTEST_SKIP() << "a GPU is there";
  const std::string flags = "plan c.toml --run.device cuda --zero.optimizer '{host = 1}' ";
  EXPECT_CONTAINS(one_line(zero(flags).output), "of its main memory for states; its free memory is not known here");
  const auto host = nlohmann::json::parse(zero(flags + "--json").output, nullptr, false)["memory"]["host"];
  EXPECT_GT(host["needed_bytes"].get<std::int64_t>(), 0);
  EXPECT_TRUE(host["free_bytes"].is_null()) << host.dump();
}

TEST_F(DeviceOfARun, GpuPlanUsesGpuRunsRates) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
  if (!find_gpus(/*memory=*/false).gpus.empty()) GTEST_SKIP() << "a GPU is there";
  std::filesystem::create_directory(folder().path() / "gpu");
  folder().write("gpu/report.json", report_of("cuda:0", kRatesOfGpu));
  const auto predicted = [this](const std::string& flags) {
    const Ran ran = zero("plan c.toml --json --run.device cuda --profile gpu " + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return nlohmann::json::parse(ran.output, nullptr, false)["predicted"];
  };
  const auto there = predicted("--world 1"), on_host = predicted("--world 1 --zero.optimizer '{host = 1}'");
  EXPECT_EQ(there["forward"]["seconds"], 0.5);
  EXPECT_EQ(there["backward"]["seconds"], 1.25);
  EXPECT_NEAR(there["update"]["seconds"].get<double>(), 0.25, 0.25 * 0.01) << "the update runs where the run did it";
  EXPECT_GT(on_host["update"]["busy"]["link up"].get<double>(), 0) << "the rate is the run's link";
  EXPECT_GT(on_host["update"]["busy"]["update"].get<double>(), 0) << "the rate is the run's host";
  EXPECT_CONTAINS(one_line(zero("plan c.toml --run.device cuda --profile gpu").output),
                  "computation and rates of the GPU measured by the run of --profile");
  folder().write("no_flops.toml", "[cluster]\nhosts = 1\nranks = 1\n");
  EXPECT_EQ(zero("plan c.toml --run.device cuda --profile gpu --cluster no_flops.toml").status, 0)
      << "the run's profile has the GPU's computation";
}

TEST_F(DeviceOfARun, PlanIgnoresOtherDevicesProfiles) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
  if (!find_gpus(/*memory=*/false).gpus.empty()) GTEST_SKIP() << "a GPU is there";
  for (const char* const run : {"gpu", "cpu", "own"}) std::filesystem::create_directory(folder().path() / run);
  folder().write("gpu/report.json", report_of("cuda:0", kRatesOfGpu));
  folder().write("cpu/report.json", report_of("cpu", ""));
  folder().write("own/report.json", report_of("cuda:0", ""));
  const auto refusal = [this](const std::string& flags) {
    const Ran ran = zero("plan c.toml " + flags);
    EXPECT_EQ(ran.status, 2) << flags << ran.output;
    return one_line(ran.errors);
  };
  EXPECT_CONTAINS(refusal("--run.device cuda --profile run"), "--profile = run: no such folder");
  EXPECT_CONTAINS(refusal("--run.device cuda --profile cpu"),
                  "--profile = cpu: is of a run on a CPU, and the plan is for a GPU");
  EXPECT_CONTAINS(refusal("--profile gpu"), "--profile = gpu: is of a run on a GPU, and the plan is for a CPU");
  EXPECT_CONTAINS(refusal("--run.device cuda --profile own"), "--profile = own: has no rates of its GPU");
}

TEST_F(DeviceOfARun, OneGpuRankGathersNoUnits) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
  if (!find_gpus(/*memory=*/false).gpus.empty()) GTEST_SKIP() << "a GPU is there";
  const auto working = [this](const std::string& flags) {
    const auto json = nlohmann::json::parse(zero("plan c.toml --json " + flags).output, nullptr, false);
    return json["memory"]["rank"]["working_bytes"].get<std::int64_t>();
  };
  EXPECT_LT(working("--zero.stage 3 --run.device cuda"), working("--zero.stage 3"));
  EXPECT_EQ(working("--zero.stage 3 --run.device cuda"), working("--zero.stage 0 --run.device cuda"));
}

TEST_F(DeviceOfARun, PlanCountsOffloadedActivationsByTier) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
  if (!find_gpus(/*memory=*/false).gpus.empty()) GTEST_SKIP() << "a GPU is there";
  const auto memory = [this](const std::string& offloaded) {
    const std::string flags = "plan c.toml --json --run.device cuda --train.checkpoint_activations true ";
    const Ran plan = zero(flags + "--model.layers 12 --zero.disk disk --train.offload_activations " + offloaded);
    EXPECT_EQ(plan.status, 0) << plan.errors;
    return nlohmann::json::parse(plan.output, nullptr, false)["memory"];
  };
  std::filesystem::create_directory(folder().path() / "disk");
  constexpr std::int64_t kInput = 2 * 16 * 8 * 4, kBlock = 4096;  // of one copy in transfer
  const auto of_rank = [](const auto& json) { return json["rank"]["activation_bytes"].template get<std::int64_t>(); };
  const auto on_host = [](const auto& json) { return json["host"]["needed_bytes"].template get<std::int64_t>(); };
  const auto stay = memory("none"), host = memory("host"), disk = memory("disk");
  EXPECT_EQ(of_rank(host), of_rank(stay) - 11 * kInput + 4 * kBlock) << "the input in use, and four blocks";
  EXPECT_EQ(on_host(host), on_host(stay) + 12 * kInput);
  EXPECT_EQ(of_rank(disk), of_rank(stay) - 11 * kInput + kBlock);
  EXPECT_EQ(on_host(disk), on_host(stay) + 4 * kBlock);
}

}  // namespace
}  // namespace zero
