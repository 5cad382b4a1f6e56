// examples/shakespeare, run as its first lines say: `zero train examples/shakespeare/shakespeare.toml -n 2` in a folder
// that has examples/. It runs a few steps instead of two thousand. Then the run is inspected, and text is generated
// from it.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/checkpoint/safetensors/safetensors_file.h"

#include "app/data/tables/csv.h"
#include "tests/cli/command.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using Json = nlohmann::json;

constexpr const char* kTrain =
    "train examples/shakespeare/shakespeare.toml -n 2 --train.steps 12 --schedule.warmup 2 --train.eval_every 6 "
    "--train.eval_batches 2 --train.sample 40";
constexpr const char* kRun = "runs/shakespeare";  // [run] dir of the example
constexpr double kUniformLoss = 5.545;            // ln 256: the loss of a uniform guess of bytes

// The example is trained once, and every test reads the same run.
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
using ShakespeareExampleSlow = ShakespeareExample;

TEST_F(ShakespeareExampleSlow, TrainsStageThreeOnTwoRanks) {
  const Json report = this->report();
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("model"), "gpt2");
  EXPECT_EQ(report.at("world"), 2);
  EXPECT_EQ(report.at("stage"), 3);
  EXPECT_EQ(report.at("transport"), "shared_memory");
  EXPECT_EQ(report.at("skipped_steps"), 0);
  ASSERT_EQ(report.at("losses").size(), 12u);
  EXPECT_NEAR(report.at("losses").front().get<double>(), kUniformLoss, 0.1)
      << "the loss before step 1 is that of a guess";
  EXPECT_LT(report.at("losses").back().get<double>(), kUniformLoss - 0.5) << "it learns";
}

TEST_F(ShakespeareExampleSlow, TellsTheValidationLoss) {
  const double val_loss = report().at("val_loss");
  EXPECT_LT(val_loss, kUniformLoss - 0.5);
  EXPECT_GT(val_loss, 1.0);
  char shown[32];
  std::snprintf(shown, sizeof shown, "val_loss %.4f", val_loss);
  EXPECT_NE(trained_.output.find(shown), std::string::npos) << shown << " is not in\n" << trained_.output;
  EXPECT_NE(trained_.output.find("step 6/12  val_loss"), std::string::npos) << "also during the run";
}

TEST_F(ShakespeareExampleSlow, PrintsPlanAndSample) {
  EXPECT_NE(trained_.output.find("plan: gpt2, 834,304 parameters, stage 3 on 2 ranks\n"), std::string::npos)
      << trained_.output;
  const auto sample = trained_.output.find("\nsample:\n"), done = trained_.output.find("\ndone: ");
  ASSERT_NE(sample, std::string::npos) << trained_.output;
  ASSERT_NE(done, std::string::npos) << trained_.output;
  const std::size_t begin = sample + std::string("\nsample:\n").size();
  EXPECT_EQ(done - begin, 40u) << "one byte per token";
}

TEST_F(ShakespeareExampleSlow, InspectReadsItsRunFolder) {
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

TEST_F(ShakespeareExampleSlow, GeneratesTextFromTheRun) {
  const std::string arguments = std::string("generate ") + kRun + " --prompt ROMEO: --tokens 30";
  const Ran first = folder_->zero(arguments);
  EXPECT_EQ(first.status, 0) << first.errors;
  EXPECT_TRUE(first.output.starts_with("ROMEO:")) << first.output;
  EXPECT_EQ(first.output.size(), std::string("ROMEO:").size() + 30 + 1)
      << "one byte per token, and the end of the line";
  EXPECT_EQ(folder_->zero(arguments).output, first.output) << "the same seed";
  EXPECT_NE(folder_->zero(arguments + " --seed 7").output, first.output) << "another seed";
}

TEST_F(ShakespeareExampleSlow, HandStartedRanksTrainTheSame) {
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

TEST_F(ShakespeareExampleSlow, SecondRunIsAlreadyDone) {
  const std::string before = folder_->read(std::string(kRun) + "/report.json");
  const Ran ran = folder_->zero(kTrain);
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_NE(ran.output.find("done already, all 12 steps"), std::string::npos) << ran.output;
  EXPECT_EQ(folder_->read(std::string(kRun) + "/report.json"), before);
}

// The stages of long examples. The full tier adds stage 0. Smaller models in tests/train compare the bits of all
// stages.
std::vector<int> some_stages() {
  return in_full_tier() ? std::vector{3, 0} : std::vector{3};
}

struct DigitExample {
  const char* name;
  const char* example;
  double accuracy;  // lower bound
  const char* flags = "";
  double training_loss = 0;  // lower bound: random shifts make digits harder
};

constexpr const char* kWideMlp = "--model.sizes '[784, 512, 512, 10]' --data.augment shift";

// A tenth of each example's steps, enough to see that the model learns. Stages 0 and 3 give the same bits.
class MnistExample : public testing::TestWithParam<DigitExample> {};
using MnistExampleSlow = MnistExample;

// Each model learns digits.
TEST_P(MnistExampleSlow, EveryStageGivesTheSameWeights) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
  const DigitExample& tried = GetParam();
  const Folder folder;
  std::filesystem::create_directory_symlink(std::string(built::kSourceFolder) + "/examples",
                                            folder.path() / "examples");
  std::string weights;
  for (const int stage : some_stages()) {
    const Ran ran = folder.zero(fmt::format("train examples/{0}/{0}.toml -n 2 --train.steps 180 --zero.stage {1} "
                                            "--run.dir run --overwrite {2}",
                                            tried.example, stage, tried.flags),
                                "timeout 250");
    ASSERT_EQ(ran.status, 0) << ran.errors << ran.output;
    const Json report = Json::parse(folder.read("run/report.json"));
    EXPECT_GT(report.at("val_accuracy"), tried.accuracy) << ran.output;
    const std::vector<double> losses = report.at("losses");
    EXPECT_GT(std::accumulate(losses.end() - 40, losses.end(), 0.0) / 40, tried.training_loss) << ran.output;
    EXPECT_NE(ran.output.find("val_accuracy"), std::string::npos);
    if (weights.empty()) weights = report.at("parameters_sha256");
    EXPECT_EQ(report.at("parameters_sha256"), weights);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, MnistExampleSlow,
                         testing::Values(DigitExample{"mnist_mlp", "mnist_mlp", 0.85},
                                         DigitExample{"mnist_cnn", "mnist_cnn", 0.9},
                                         DigitExample{"mnist_lstm", "mnist_lstm", 0.6},
                                         DigitExample{"wide_mlp", "mnist_mlp", 0.91, kWideMlp, 0.4}),
                         [](const auto& given) { return std::string(given.param.name); });

// Examples that read text, in a few steps. The models learn, and stages 0 and 3 give the same bits.
struct TextExample {
  std::string example;
  double loss_at_most;  // on validation data
  bool writes_text = true;
};

class TextExamples : public testing::TestWithParam<TextExample> {};
using TextExamplesSlow = TextExamples;

// Each model learns.
TEST_P(TextExamplesSlow, EveryStageGivesTheSameWeights) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
  const Folder folder;
  std::filesystem::create_directory_symlink(std::string(built::kSourceFolder) + "/examples",
                                            folder.path() / "examples");
  std::string weights;
  for (const int stage : some_stages()) {
    const Ran ran =
        folder.zero(fmt::format("train examples/{0}/{0}.toml -n 2 --train.steps 30 --schedule.warmup 5 "
                                "--train.sample 0 --zero.stage {1} --data.validation 0.02 --run.dir run --overwrite",
                                GetParam().example, stage),
                    "timeout 250");
    ASSERT_EQ(ran.status, 0) << ran.errors << ran.output;
    const Json report = Json::parse(folder.read("run/report.json"));
    EXPECT_LT(report.at("val_loss"), GetParam().loss_at_most) << ran.output;
    EXPECT_EQ(report.contains("val_accuracy"), !GetParam().writes_text);
    if (weights.empty()) weights = report.at("parameters_sha256");
    EXPECT_EQ(report.at("parameters_sha256"), weights);
  }
  const Ran text = folder.zero("generate run --prompt ROMEO: --tokens 5");
  EXPECT_EQ(text.status, GetParam().writes_text ? 0 : 2) << text.errors;
  if (GetParam().writes_text)
    EXPECT_TRUE(text.output.starts_with("ROMEO:")) << text.output;
  else
    EXPECT_NE(text.errors.find("trained a bert on data.kind word_order, which writes no text"), std::string::npos)
        << text.errors;
}

INSTANTIATE_TEST_SUITE_P(Models, TextExamplesSlow,
                         testing::Values(TextExample{"shakespeare_lstm", 3.6}, TextExample{"shakespeare_llama", 3.6},
                                         TextExample{"bert_classification", 0.75, false}),
                         [](const auto& given) { return given.param.example; });

// Commands of examples/README.md with other kinds of training, in a few steps. Workers or copies share an example's
// batches.
struct OtherWay {
  const char* name;
  const char* arguments;
};

class OtherWays : public testing::TestWithParam<OtherWay> {};

TEST_P(OtherWays, TrainAnExampleAsItStands) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
  const Folder folder;
  std::filesystem::create_directory_symlink(std::string(built::kSourceFolder) + "/examples",
                                            folder.path() / "examples");
  const Ran ran = folder.zero(fmt::format("train {} --run.dir run", GetParam().arguments), "timeout 250");
  ASSERT_EQ(ran.status, 0) << ran.errors << ran.output;
  const Json report = Json::parse(folder.read("run/report.json"));
  EXPECT_LT(report.at("losses").back(), report.at("losses").front()) << ran.output;
}

INSTANTIATE_TEST_SUITE_P(
    Examples, OtherWays,
    testing::Values(OtherWay{"servers",
                             "examples/mnist_cnn/mnist_cnn.toml -n 5 --sync.mode async --sync.servers 2 "
                             "--sync.staleness 4 --train.steps 60"},
                    OtherWay{"local_steps",
                             "examples/shakespeare/shakespeare.toml -n 2 --sync.mode local "
                             "--sync.local_steps 50 --train.steps 60 --schedule.warmup 10 "
                             "--train.sample 0 --data.validation 0.02"}),
    [](const auto& given) { return std::string(given.param.name); });

// The published figures: whole runs of examples, minutes each, with three seeds. The median counts.
struct Figure {
  const char* name;
  const char* example;
  const char* figure;  // key of report.json
  double bound;        // upper bound of losses, lower bound of accuracies
  const char* flags = "";
  const Figure* rival = nullptr;  // also measured; this figure must be as good, or better
  int epochs = 0;                 // 0: the example's own steps
};

bool is_loss(const Figure& figure) {
  return std::string_view(figure.figure) == "val_loss";
}

void measure(const Figure& wanted, double& median) {
  const Folder folder;
  std::filesystem::create_directory_symlink(std::string(built::kSourceFolder) + "/examples",
                                            folder.path() / "examples");
  std::vector<double> found;
  for (const int seed : {1, 2, 3}) {
    const Ran ran =
        folder.zero(fmt::format("train examples/{0}/{0}.toml -n 2 --run.dir run --overwrite --train.seed {1} {2} {3}",
                                wanted.example, seed, wanted.flags,
                                wanted.epochs > 0 ? fmt::format("--train.epochs {}", wanted.epochs) : ""),
                    "timeout 3000");
    ASSERT_EQ(ran.status, 0) << ran.errors << ran.output;
    found.push_back(Json::parse(folder.read("run/report.json")).at(wanted.figure));
  }
  std::ranges::sort(found);
  std::cout << fmt::format("{}: {} {:.4f}, {:.4f}, {:.4f}\n", wanted.name, wanted.figure, found[0], found[1], found[2]);
  median = found[1];
  if (is_loss(wanted))
    EXPECT_LE(median, wanted.bound) << wanted.name;
  else
    EXPECT_GE(median, wanted.bound) << wanted.name;
}

class Figures : public testing::TestWithParam<Figure> {};
using FiguresFull = Figures;

TEST_P(FiguresFull, MedianOfThreeSeedsReachesThem) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
  if (!in_full_tier()) GTEST_SKIP() << "minutes of training: ZERO_TEST_TIER=full";
  double own = 0, rivals = 0;
  ASSERT_NO_FATAL_FAILURE(measure(GetParam(), own));
  const Figure* const rival = GetParam().rival;
  if (rival == nullptr) return;
  ASSERT_NO_FATAL_FAILURE(measure(*rival, rivals));
  EXPECT_TRUE(is_loss(*rival) ? own <= rivals : own >= rivals)
      << GetParam().name << ' ' << own << ", " << rival->name << ' ' << rivals;
}

constexpr Figure kGpt2{"gpt2", "shakespeare", "val_loss", 1.90};
// Both models have the same budget: model size, tokens and steps.
INSTANTIATE_TEST_SUITE_P(Examples, FiguresFull,
                         testing::Values(Figure{"llama_and_gpt2", "shakespeare_llama", "val_loss", 1.90, "", &kGpt2},
                                         Figure{"char_lstm", "shakespeare_lstm", "val_loss", 1.75},
                                         Figure{"bert", "bert_classification", "val_accuracy", 0.81},
                                         Figure{"cnn", "mnist_cnn", "val_accuracy", 0.99},
                                         Figure{"lstm", "mnist_lstm", "val_accuracy", 0.97},
                                         Figure{"mlp", "mnist_mlp", "val_accuracy", 0.955},
                                         Figure{"wide_mlp", "mnist_mlp", "val_accuracy", 0.983, kWideMlp,
                                                /*rival=*/nullptr, /*epochs=*/40}),
                         [](const auto& given) { return std::string(given.param.name); });

// Coefficients and constant of the least squares. The normal equations of the training rows are solved in double by
// elimination.
std::vector<double> least_squares(const CsvTable& table, std::int64_t rows) {
  const auto inputs = static_cast<std::size_t>(table.num_columns - 1), size = inputs + 1;
  std::vector<std::vector<double>> equations(size, std::vector<double>(size + 1));
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    std::vector<double> x(table.values.begin() + static_cast<std::ptrdiff_t>(row * size),
                          table.values.begin() + static_cast<std::ptrdiff_t>((row + 1) * size));
    const double target = x.back();
    x.back() = 1;
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) equations[i][j] += x[i] * x[j];
      equations[i][size] += x[i] * target;
    }
  }
  for (std::size_t pivot = 0; pivot < size; ++pivot) {
    for (std::size_t row = 0; row < size; ++row) {
      if (row == pivot) continue;
      const double factor = equations[row][pivot] / equations[pivot][pivot];
      for (std::size_t column = pivot; column <= size; ++column)
        equations[row][column] -= factor * equations[pivot][column];
    }
  }
  std::vector<double> solution;
  for (std::size_t i = 0; i < size; ++i) solution.push_back(equations[i][size] / equations[i][i]);
  return solution;
}

TEST(LinearExample, SolvesTheNormalEquations) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
  const Folder folder;
  std::filesystem::create_directory_symlink(std::string(built::kSourceFolder) + "/examples",
                                            folder.path() / "examples");
  const Ran ran = folder.zero("train examples/linear/linear.toml -n 2 --run.dir run", "timeout 250");
  ASSERT_EQ(ran.status, 0) << ran.errors << ran.output;
  for (const char* printed :
       {"step 50/200  val_loss 0.0121", "samples of the validation data, predicted and true:", "done: run"})
    EXPECT_NE(ran.output.find(printed), std::string::npos) << printed << '\n' << ran.output;
  const auto solution = least_squares(read_csv(folder.path() / "examples/linear/table.csv", "data.path"), 400);
  const auto file = SafetensorsFile::open(folder.path() / "run/model.safetensors");
  std::vector<float> weights;
  for (const SafetensorsEntry& entry : file.entries()) {
    std::vector<float> values(static_cast<std::size_t>(entry.numel()));
    file.read(entry, 0, std::as_writable_bytes(std::span(values)));
    weights.insert(entry.name.ends_with("weight") ? weights.begin() : weights.end(), values.begin(), values.end());
  }
  ASSERT_EQ(weights.size(), solution.size());
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], solution[i], 2e-6) << i;
}

}  // namespace
}  // namespace zero
