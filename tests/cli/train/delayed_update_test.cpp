// `[zero] delayed_update` on real text: at a moderate learning rate it converges like the exact run, although with
// other bits.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using Json = nlohmann::json;

constexpr const char* kConfig = R"([model]
layers = 2
width = 64
heads = 2
context = 32
[data]
path = "shakespeare.txt"
[train]
steps = 300
batch = 8
eval_batches = 40
[optimizer]
lr = 5e-4
[schedule]
warmup = 30
[run]
threads = 1
)";

class DelayedUpdateOnText : public TrainingTest {
 protected:
  DelayedUpdateOnText() : TrainingTest(kConfig) {}
  void SetUp() override {
    TrainingTest::SetUp();
    if (IsSkipped()) return;
    std::filesystem::create_directories(folder_.path() / "disk");
    std::filesystem::copy_file(std::string(built::kSourceFolder) + "/examples/shakespeare/input.txt",
                               folder_.path() / "shakespeare.txt");
  }
};
using DelayedUpdateOnTextFull = DelayedUpdateOnText;

TEST_F(DelayedUpdateOnTextFull, ConvergesAsTheExactRunDoes) {
  if (!in_full_tier()) GTEST_SKIP() << "600 steps of training: ZERO_TEST_TIER=full";
  const Json exact = report_of("-n 2", "exact");
  const Json late = report_of("-n 2 --zero.delayed_update true --zero.optimizer '{disk=1}' --zero.disk disk", "late");
  ASSERT_TRUE(exact.is_object() && late.is_object());
  EXPECT_EQ(exact.at("delayed_steps"), 0);
  EXPECT_EQ(late.at("delayed_steps"), 300 - 40);
  EXPECT_NE(late.at("parameters_sha256"), exact.at("parameters_sha256"));
  const double wanted = exact.at("val_loss"), seen = late.at("val_loss");
  EXPECT_LT(wanted, 2.85) << "the loss begins at 5.5";
  EXPECT_NEAR(seen, wanted, 0.03 * wanted);
}
using DelayedUpdateOnTextSlow = DelayedUpdateOnText;

TEST_F(DelayedUpdateOnTextSlow, AnyTierHasTheSameBits) {
  const std::string few = "-n 2 --train.steps 50 --zero.delayed_update true ";
  const Json resident = report_of(few, "resident");
  const Json away = report_of(few +
                                  "--zero.parameter '{disk=1}' --zero.gradient '{disk=1}' --zero.optimizer '{disk=1}' "
                                  "--zero.disk disk --zero.device_memory min",
                              "away");
  ASSERT_TRUE(resident.is_object() && away.is_object());
  EXPECT_EQ(resident.at("delayed_steps"), 10);
  EXPECT_EQ(away.at("loss_bits"), resident.at("loss_bits"));
  EXPECT_EQ(away.at("parameters_sha256"), resident.at("parameters_sha256"));
}

TEST_F(DelayedUpdateOnText, IsRefusedWhereGradientsAreWhole) {
  const Ran ran = folder_.zero("train c.toml --zero.delayed_update true --zero.stage 1", "timeout 60");
  EXPECT_EQ(ran.status, 2) << ran.errors;
  EXPECT_NE(ran.errors.find("zero.delayed_update"), std::string::npos) << ran.errors;
  EXPECT_NE(ran.errors.find("use stage 2 or 3"), std::string::npos) << ran.errors;
}

}  // namespace
}  // namespace zero
