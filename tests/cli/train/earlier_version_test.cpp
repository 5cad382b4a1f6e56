// The run folder of an earlier version is read, exported and continued. tests/cli/earlier_run holds it: three steps of
// a small GPT on two ranks, by commit d2f3add.
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"
#include "tests/support/expect_contains.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

class EarlierVersion : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path source = built::kSourceFolder;
    std::filesystem::copy(source / "tests/cli/earlier_run", folder_.path() / "run",
                          std::filesystem::copy_options::recursive);
    std::filesystem::create_directory_symlink(source / "examples", folder_.path() / "examples");
  }
  Folder folder_;
};

TEST_F(EarlierVersion, ExportsTheSameBytes) {
  const Ran inspected = folder_.zero("inspect --verify run");
  EXPECT_EQ(inspected.status, 0) << inspected.errors;
  EXPECT_CONTAINS(inspected.output, "step 3, 51.8 KiB in 2 files, configuration 15869de5, every byte verified");
  const Ran exported = folder_.zero("export run -o weights.safetensors");
  EXPECT_EQ(exported.status, 0) << exported.errors;
  EXPECT_EQ(folder_.read("weights.safetensors"), folder_.read("run/model.safetensors"));
}

TEST_F(EarlierVersion, ContinuesFromItsCheckpoint) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
  const auto before = nlohmann::json::parse(folder_.read("run/report.json")).at("loss_bits");
  const Ran ran = folder_.zero("train run/config.toml -n 2 --run.dir run --train.steps 6", "timeout 100");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  EXPECT_CONTAINS(ran.output, "continuing after step 3 of 6");
  const auto losses = nlohmann::json::parse(folder_.read("run/report.json"));
  ASSERT_EQ(losses.at("loss_bits").size(), 6U);
  for (std::size_t step = 0; step < 3; ++step) EXPECT_EQ(losses.at("loss_bits").at(step), before.at(step));
  // The losses equal those of an uninterrupted run, so the moments were also read.
  const Ran whole = folder_.zero("train run/config.toml -n 2 --run.dir whole --train.steps 6", "timeout 100");
  ASSERT_EQ(whole.status, 0) << whole.errors;
  const auto uninterrupted = nlohmann::json::parse(folder_.read("whole/report.json"));
  for (std::size_t step = 0; step < 6; ++step)
    EXPECT_NEAR(losses.at("losses").at(step).get<double>(), uninterrupted.at("losses").at(step).get<double>(), 1e-5);
}

}  // namespace
}  // namespace zero
