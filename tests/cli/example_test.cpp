// examples/shakespeare, as its first lines say to run it: `zero train examples/shakespeare/shakespeare.toml -n 2` from
// a folder that has examples/, with a few steps instead of two thousand. Then what a user does with the run: inspect it
// and generate from it.
#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../this_build.h"
#include "command.h"

namespace zero {
namespace {

using Json = nlohmann::json;

constexpr const char* kTrain =
    "train examples/shakespeare/shakespeare.toml -n 2 --train.steps 12 --schedule.warmup 2 --train.eval_every 6 "
    "--train.eval_batches 2 --train.sample 40";
constexpr const char* kRun = "runs/shakespeare";  // [run] dir of the example
constexpr double kUniformLoss = 5.545;            // ln 256: of who knows nothing about bytes

// Trained once; every test looks at the same run.
class ShakespeareExample : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!ZERO_CAN_TRAIN) return;
    folder_ = std::make_unique<Folder>();
    std::filesystem::create_directory_symlink(std::string(built::kSourceFolder) + "/examples",
                                              folder_->path() / "examples");
    trained_ = folder_->zero(kTrain, "timeout 250");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override {
    if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
    ASSERT_EQ(trained_.status, 0) << trained_.errors << trained_.output;
  }

  static Json json(const std::string& text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }
  static Json report() { return json(folder_->read(std::string(kRun) + "/report.json")); }

  static inline std::unique_ptr<Folder> folder_;
  static inline Ran trained_;
};

TEST_F(ShakespeareExample, TrainsAtStageThreeOnTwoRanks) {
  const Json report = this->report();
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("model"), "gpt2");
  EXPECT_EQ(report.at("world"), 2);
  EXPECT_EQ(report.at("stage"), 3);
  EXPECT_EQ(report.at("transport"), "shared_memory");
  EXPECT_EQ(report.at("skipped_steps"), 0);
  ASSERT_EQ(report.at("losses").size(), 12u);
  EXPECT_NEAR(report.at("losses").front().get<double>(), kUniformLoss, 0.1) << "nothing is learned before step 1";
  EXPECT_LT(report.at("losses").back().get<double>(), kUniformLoss - 0.5) << "it learns";
}

TEST_F(ShakespeareExample, TellsTheValidationLoss) {
  const double val_loss = report().at("val_loss");
  EXPECT_LT(val_loss, kUniformLoss - 0.5);
  EXPECT_GT(val_loss, 1.0);
  char shown[32];
  std::snprintf(shown, sizeof shown, "val_loss %.4f", val_loss);
  EXPECT_NE(trained_.output.find(shown), std::string::npos) << shown << " is not in\n" << trained_.output;
  EXPECT_NE(trained_.output.find("step 6/12  val_loss"), std::string::npos) << "also on the way";
}

TEST_F(ShakespeareExample, PrintsThePlanAndASampleOfText) {
  EXPECT_NE(trained_.output.find("plan: gpt2, 834,304 parameters, stage 3 on 2 ranks\n"), std::string::npos)
      << trained_.output;
  const auto sample = trained_.output.find("\nsample:\n"), done = trained_.output.find("\ndone: ");
  ASSERT_NE(sample, std::string::npos) << trained_.output;
  ASSERT_NE(done, std::string::npos) << trained_.output;
  const std::size_t begin = sample + std::string("\nsample:\n").size();
  EXPECT_EQ(done - begin, 40u) << "a byte a token";
}

TEST_F(ShakespeareExample, LeavesARunFolderThatInspectReads) {
  for (const char* file : {"config.toml", "plan.txt", "metrics.jsonl", "report.json", "model.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(folder_->path() / kRun / file)) << file;

  const Json run = json(folder_->zero(std::string("inspect --json ") + kRun).output);
  ASSERT_TRUE(run.is_object());
  EXPECT_EQ(run.at("done"), true);
  EXPECT_EQ(run.at("report").at("parameters_sha256"), report().at("parameters_sha256"));

  const Ran inspected = folder_->zero(std::string("inspect --json ") + kRun + "/model.safetensors");
  EXPECT_EQ(inspected.status, 0) << inspected.errors;
  const Json weights = json(inspected.output);
  ASSERT_TRUE(weights.is_object());
  EXPECT_EQ(weights.at("kind"), "safetensors");
  EXPECT_EQ(weights.at("numel"), report().at("num_parameters"));
  EXPECT_EQ(weights.at("tensors").size(), 4u * 12 + 4) << "four blocks, two embeddings and a norm; the head is tied";
}

TEST_F(ShakespeareExample, GeneratesTextFromTheRun) {
  const std::string arguments = std::string("generate ") + kRun + " --prompt ROMEO: --tokens 30";
  const Ran first = folder_->zero(arguments);
  EXPECT_EQ(first.status, 0) << first.errors;
  EXPECT_TRUE(first.output.starts_with("ROMEO:")) << first.output;
  EXPECT_EQ(first.output.size(), std::string("ROMEO:").size() + 30 + 1) << "a byte a token, and the end of the line";
  EXPECT_EQ(folder_->zero(arguments).output, first.output) << "the same seed";
  EXPECT_NE(folder_->zero(arguments + " --seed 7").output, first.output) << "another seed";
}

TEST_F(ShakespeareExample, RanksStartedByHandTrainTheSame) {
  const std::string mine = std::string(kTrain, kTrain + std::string(kTrain).find(" -n 2")) +
                           std::string(kTrain).substr(std::string(kTrain).find(" -n 2") + 5) +
                           " --run.dir runs/by-hand --world-size 2 --run-id " + folder_->path().filename().string();
  const Ran ran = folder_->zero(mine + " --rank 0", "{ timeout 250 '" + std::string(built::kCommand) + "' " + mine +
                                                        " --rank 1 >.out1 2>.err1 & } && timeout 250");
  ASSERT_EQ(ran.status, 0) << ran.errors << folder_->read(".err1");
  const Json by_hand = json(folder_->read("runs/by-hand/report.json"));
  ASSERT_TRUE(by_hand.is_object());
  EXPECT_EQ(by_hand.at("loss_bits"), report().at("loss_bits"));
  EXPECT_NE(ran.output.find("ranks: 2 (flags, shared_memory)"), std::string::npos) << ran.output;
}

TEST_F(ShakespeareExample, ASecondTimeItIsDoneAlready) {
  const std::string before = folder_->read(std::string(kRun) + "/report.json");
  const Ran ran = folder_->zero(kTrain);
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_NE(ran.output.find("done already, all 12 steps"), std::string::npos) << ran.output;
  EXPECT_EQ(folder_->read(std::string(kRun) + "/report.json"), before);
}

// A tenth of each example's steps: far enough to see that it learns, and the same bits at the first stage and the last.
class MnistExample : public testing::TestWithParam<std::pair<const char*, double>> {};

TEST_P(MnistExample, LearnsDigitsAndEveryStageGivesTheSameWeights) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
  const auto& [name, accuracy] = GetParam();
  const Folder folder;
  std::filesystem::create_directory_symlink(std::string(built::kSourceFolder) + "/examples",
                                            folder.path() / "examples");
  std::string weights;
  for (const int stage : {0, 3}) {
    const Ran ran = folder.zero(fmt::format("train examples/mnist/{}.toml -n 2 --train.steps 180 --zero.stage {} "
                                            "--run.dir run --overwrite",
                                            name, stage),
                                "timeout 250");
    ASSERT_EQ(ran.status, 0) << ran.errors << ran.output;
    const Json report = Json::parse(folder.read("run/report.json"));
    EXPECT_GT(report.at("val_accuracy"), accuracy) << ran.output;
    EXPECT_NE(ran.output.find("val_accuracy"), std::string::npos);
    if (weights.empty()) weights = report.at("parameters_sha256");
    EXPECT_EQ(report.at("parameters_sha256"), weights);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, MnistExample,
                         testing::Values(std::pair{"mlp", 0.85}, std::pair{"cnn", 0.9}, std::pair{"lstm", 0.6}),
                         [](const auto& given) { return std::string(given.param.first); });

}  // namespace
}  // namespace zero
