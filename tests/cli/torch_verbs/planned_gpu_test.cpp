// `zero plan` for a GPU of this machine, and `zero train` on an unusable GPU. They use a libcudart without a GPU
// (tests/cuda/fake_cudart).
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/files/file.h"
#include "zero/device/open_device.h"

#include "tests/cli/command.h"
#include "tests/support/expect_contains.h"
#include "tests/support/one_line.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

using Json = nlohmann::json;

constexpr const char* kModel = R"([model]
layers = 4
width = 64
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
constexpr std::int64_t kMiB = 1 << 20;

// A build with the plug-in: the one that ZERO_TEST_CUDA_BUILD names, or this test's own.
std::filesystem::path cuda_build() {
  if (const char* const named = std::getenv("ZERO_TEST_CUDA_BUILD")) return std::filesystem::absolute(named);
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
}

// The command's libraries, with a plug-in that calls the fake libcudart. The fake has another name, because a libtorch
// for GPUs brings its own libcudart.so.13, which the loader would also give to the plug-in.
class PlannedGpu : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path fake = cuda_build() / "tests/fake_cudart/libcudart.so.13",
                                plugin = cuda_build() / "lib/libzero_device_cuda.so",
                                own = std::filesystem::path(built::kCommand).parent_path() / "../lib";
    if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
    if (!std::filesystem::exists(plugin) || !std::filesystem::exists(fake))
      GTEST_SKIP() << "no plug-in for GPUs, or no fake libcudart: ZERO_TEST_CUDA_BUILD names a build that has them";
    if (!find_gpus(/*memory=*/false).gpus.empty()) GTEST_SKIP() << "a GPU is there";
    std::filesystem::create_directory(libraries());
    for (const auto& library : std::filesystem::directory_iterator(std::filesystem::canonical(own)))
      if (library.path().filename() != plugin.filename())
        std::filesystem::create_symlink(library.path(), libraries() / library.path().filename());
    copy_renamed(plugin, plugin.filename().string());
    copy_renamed(fake, kRenamed);
    folder_.write("c.toml", kModel);
    std::string text;
    for (int i = 0; i < 400; ++i) text += "a line of text\n";
    folder_.write("input.txt", text);
  }
  // Two GPUs, each with `free_bytes` free.
  Ran plan(std::int64_t free_bytes, const std::string& flags) const {
    return zero("plan c.toml " + flags, "FAKE_CUDA_DEVICES=2 FAKE_CUDA_FREE=" + std::to_string(free_bytes));
  }
  Ran zero(const std::string& arguments, const std::string& fake) const {
    return folder_.zero(arguments, "LD_LIBRARY_PATH=\"" + libraries().string() + ":$LD_LIBRARY_PATH\" " + fake);
  }
  void expect_refused(const std::string& flags, const std::string& fake, const std::string& said) const {
    for (const char* const ranks : {"", " -n 2"}) {
      const Ran ran = zero("train c.toml " + flags + ranks, fake);
      EXPECT_EQ(ran.status, 2) << flags << ranks << " " << fake << ran.output;
      EXPECT_CONTAINS(one_line(ran.errors), "run.device = ");
      EXPECT_CONTAINS(one_line(ran.errors), said);
      EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run"));
    }
  }
  const Folder& folder() const { return folder_; }
  Json memory(std::int64_t free_bytes, const std::string& flags) const {
    const Ran ran = plan(free_bytes, "--json " + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return Json::parse(ran.output, nullptr, false)["memory"];
  }

 private:
  static constexpr const char* kName = "libcudart.so.13";
  static constexpr const char* kRenamed = "libcudart.so.00";  // of equal length

  std::filesystem::path libraries() const { return folder_.path() / "lib"; }
  void copy_renamed(const std::filesystem::path& from, const std::string& to) const {
    std::string bytes = read_file(from);
    for (std::size_t at = bytes.find(kName); at != std::string::npos; at = bytes.find(kName, at))
      bytes.replace(at, std::string(kName).size(), kRenamed);
    folder_.write("lib/" + to, bytes);
  }

  Folder folder_;
};

std::int64_t bytes(const Json& json, const char* part, const char* key) {
  return json[part][key].get<std::int64_t>();
}

TEST_F(PlannedGpu, HoldsStatesOrTheHostDoes) {
  const Json plenty = memory(64 * kMiB, "--run.device cuda"), little = memory(3 * kMiB, "--run.device cuda");
  EXPECT_EQ(plenty["gpu"], "cuda:0 Fake GPU 0");
  EXPECT_EQ(plenty["free_bytes"], 64 * kMiB);
  EXPECT_EQ(plenty["fits"], true);
  EXPECT_EQ(bytes(plenty, "host", "needed_bytes"), 0);
  EXPECT_EQ(little["free_bytes"], 3 * kMiB);
  EXPECT_GT(bytes(little, "host", "needed_bytes"), 0) << "states are placed as in a run";
  EXPECT_LE(bytes(little, "rank", "states_bytes"), 3 * kMiB * 4 / 5);
  EXPECT_EQ(bytes(little, "rank", "states_bytes") + bytes(little, "host", "needed_bytes"),
            bytes(plenty, "rank", "states_bytes"));
}

TEST_F(PlannedGpu, RanksWithoutTheirOwnShareIt) {
  const Json three = memory(64 * kMiB, "--run.device cuda --world 3");
  EXPECT_EQ(three["needed_bytes"].get<std::int64_t>(), 2 * bytes(three, "rank", "total_bytes"));
  const Json second = memory(64 * kMiB, "--run.device cuda:1 --world 3");
  EXPECT_EQ(second["gpu"], "cuda:1 Fake GPU 1");
  EXPECT_EQ(second["needed_bytes"].get<std::int64_t>(), 3 * bytes(second, "rank", "total_bytes"));
}

TEST_F(PlannedGpu, AbsentOneIsNotJudged) {
  EXPECT_EQ(memory(64 * kMiB, "--run.device cuda:2")["fits"], nullptr);
  EXPECT_CONTAINS(one_line(plan(64 * kMiB, "--run.device cuda:2").output), "no driver on this machine lists cuda:2");
}

// A GPU elsewhere is planned like a local GPU with enough room. States fill main memory before the disk, and none of
// them moves later.
TEST_F(PlannedGpu, RemoteOneIsAssumedRoomy) {
  for (const std::string budgets :
       {"--zero.device_memory 2MiB", "--zero.device_memory 2MiB --zero.host_memory 17MiB"}) {
    Json here = memory(1024 * kMiB, "--run.device cuda:1 --zero.disk . " + budgets),
         elsewhere = memory(1024 * kMiB, "--run.device cuda:2 --zero.disk . " + budgets);
    EXPECT_GT(bytes(here, "host", "needed_bytes"), 0);
    EXPECT_EQ(elsewhere["rank"], here["rank"]) << budgets;
    EXPECT_EQ(bytes(elsewhere, "host", "needed_bytes"), bytes(here, "host", "needed_bytes")) << budgets;
    EXPECT_EQ(bytes(elsewhere, "disk", "needed_bytes"), bytes(here, "disk", "needed_bytes")) << budgets;
  }
}

TEST_F(PlannedGpu, IsNamedWithItsFreeMemory) {
  const Ran ran = plan(64 * kMiB, "--run.device cuda");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_CONTAINS(one_line(ran.output), "cuda:0 Fake GPU 0");
  EXPECT_CONTAINS(one_line(ran.output), "64.0 MiB");
}

TEST_F(PlannedGpu, OffloadedInputsLeaveIt) {
  const std::string flags = "--run.device cuda --model.layers 12 --train.checkpoint_activations true ";
  const Json stay = memory(64 * kMiB, flags), leave = memory(64 * kMiB, flags + "--train.offload_activations host");
  constexpr std::int64_t kInput = std::int64_t{2} * 16 * 64 * 4;
  EXPECT_EQ(bytes(leave, "rank", "activation_bytes"), bytes(stay, "rank", "activation_bytes") - (11 - 4) * kInput);
  EXPECT_EQ(bytes(leave, "host", "needed_bytes"), bytes(stay, "host", "needed_bytes") + 12 * kInput);
}

TEST_F(PlannedGpu, CpuLibtorchPlansWithoutIt) {
  const Ran ran = plan(64 * kMiB, "--run.device auto");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_EQ(ran.output.find("Fake GPU"), std::string::npos) << "libtorch is for the CPU, so the run uses the CPU";
}

TEST_F(PlannedGpu, EarlierRunsActivationsSetPlacement) {
  const std::string flags = "--run.device cuda";
  const Json guessed = memory(3 * kMiB, flags);
  const std::string work = guessed["activations_of"];
  std::filesystem::create_directories(folder().path() / ".cache/zero.cpp");
  folder().write(".cache/zero.cpp/activations.json", Json{{work, kMiB / 4}}.dump());
  const Json learned = memory(3 * kMiB, flags);
  EXPECT_EQ(bytes(learned, "rank", "activation_bytes"), kMiB / 4);
  EXPECT_GT(bytes(learned, "rank", "states_bytes"), bytes(guessed, "rank", "states_bytes"))
      << "the guess of a fifth is too much";
  EXPECT_CONTAINS(one_line(plan(3 * kMiB, flags).output), "activations 256 KiB (of an earlier run)");
  EXPECT_EQ(memory(3 * kMiB, flags + " --zero.rates probe")["rank"], guessed["rank"]);
}

TEST_F(PlannedGpu, UnusableOneEndsWithARemedy) {
  expect_refused("--run.device cuda", "FAKE_CUDA_DRIVER=0", "there is no NVIDIA driver");
  expect_refused("--run.device cuda", "FAKE_CUDA_DRIVER=12080", "the driver is too old");
  expect_refused("--run.device auto", "FAKE_CUDA_DRIVER=12080", "the driver is too old");
  expect_refused("--run.device cuda", "FAKE_CUDA_DEVICES=0", "there is no GPU");
  expect_refused("--run.device cuda:2", "FAKE_CUDA_DEVICES=2", "there are 2 GPUs");
  expect_refused("--run.device cuda", "FAKE_CUDA_DEVICES=2",
                 "use torch ");  // libtorch is for the CPU, or lacks libraries
}

}  // namespace
}  // namespace zero
