#include "app/train/run/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <span>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/safetensors/safetensors_file.h"

#include "tests/data/make_files.h"
#include "tests/support/message_of.h"
#include "tests/train/small_run.h"

namespace zero {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class TrainerTest : public SmallRunTest {
 protected:
  TrainJob table_job(std::string model, std::string_view rows, std::int64_t steps) {
    TrainJob job;
    job.model = {.name = std::move(model)};
    job.data = {.kind = DataKind::kCsv, .path = folder_.write("table.csv", rows), .validation = 0.0};
    job.train = {.steps = steps, .batch = 4, .eval_every = 0, .log_every = 50};
    job.schedule = {.kind = LrKind::kConstant, .lr = 0.05, .warmup = 0, .steps = steps};
    job.attach = {.stage = 2, .optimizer = AdamW{.lr = 0.05, .weight_decay = 0}};
    job.run_dir = folder_ / "run";
    return job;
  }

  json report() { return json::parse(read_file(folder_ / "run/report.json")); }
};

TEST_F(TrainerTest, ATextIsLearned) {
  const auto losses = run(text_job(60), 1).report.steps.losses;
  EXPECT_NEAR(losses.front(), std::log(256.0), 0.3);
  EXPECT_LT(losses.back(), 2.0);
}

TEST_F(TrainerTest, ALineIsFitted) {
  std::string rows;
  for (int a = -4; a <= 4; ++a) {
    for (int b = -4; b <= 4; ++b)
      rows += fmt::format("{},{},{}\n", a * 0.25, b * 0.25, 2.0 * a * 0.25 - b * 0.25 + 0.5);
  }
  EXPECT_LT(run(table_job("linear", rows, 300), 2).report.steps.losses.back(), 1e-3);
}

TEST_F(TrainerTest, ExclusiveOrIsLearned) {
  auto job = table_job("mlp", "0,0,0\n0,1,1\n1,0,1\n1,1,0\n", 400);
  job.model.sizes = {2, 16, 1};
  EXPECT_LT(run(job, 1).report.steps.losses.back(), 0.02);
}

TEST_F(TrainerTest, StagesGiveTheSameBits) {
  std::vector<std::string> sha;
  std::vector<std::vector<float>> losses;
  for (int stage = 0; stage <= 3; ++stage) {
    auto job = text_job(6);
    job.attach.stage = stage;
    job.run_dir = folder_ / fmt::format("stage{}", stage);
    auto result = run(job, 2);
    sha.push_back(result.report.parameters_sha256);
    losses.push_back(result.report.steps.losses);
  }
  for (int stage = 1; stage <= 3; ++stage) {
    EXPECT_EQ(sha[stage], sha[0]) << "stage " << stage;
    EXPECT_EQ(losses[stage], losses[0]) << "stage " << stage;
  }
  EXPECT_EQ(sha[0].size(), 64U);
}

// Every kind of model that reads tokens or texts, at stage 0 and at stage 3.
TEST_F(TrainerTest, StagesKeepBitsOfEveryModel) {
  std::vector<ModelOptions> models{
      {.name = "llama", .layers = 2, .width = 16, .heads = 4, .kv_heads = 2, .context = 16},
      {.name = "llama", .layers = 1, .width = 16, .heads = 2, .tie_embeddings = true, .context = 16},
      {.name = "bert", .layers = 2, .width = 16, .heads = 2, .context = 16}};
  for (const char* name : {"rnn", "lstm", "gru"})
    models.push_back({.name = name, .layers = 2, .hidden = 12, .context = 16});
  std::string lines;
  for (int i = 0; i < 60; ++i)
    lines += fmt::format("to be or not to be {} that is the question\n", i % 2 ? "sir" : "oh");
  for (const ModelOptions& model : models) {
    std::vector<std::string> sha;
    std::vector<std::vector<float>> losses;
    for (const int stage : {0, 3}) {
      auto job = text_job(6);
      job.model = model;
      job.train.sample = 5;
      if (model.name == "bert")
        job.data = {.kind = DataKind::kWordOrder, .path = folder_.write("lines.txt", lines), .validation = 0.1};
      job.attach.stage = stage;
      job.run_dir = folder_ / fmt::format("{}-{}", model.name, stage);
      job.overwrite = true;
      const auto result = run(job, 2);
      sha.push_back(result.report.parameters_sha256);
      losses.push_back(result.report.steps.losses);
      EXPECT_EQ(out_.find("sample:\n") != std::string::npos, model.name != "bert") << model.name;
      EXPECT_EQ(out_.find("predicted and true:\n") != std::string::npos, model.name == "bert") << model.name;
      EXPECT_EQ(out_.find("to be or not to be") != std::string::npos, model.name == "bert") << out_;
      EXPECT_EQ(out_.find("  as written  ") != std::string::npos, model.name == "bert") << out_;
      EXPECT_EQ(out_.find("val_accuracy") != std::string::npos, model.name == "bert") << model.name;
      EXPECT_EQ(out_.find("val_perplexity") != std::string::npos, model.name != "bert") << model.name;
      EXPECT_EQ(result.report.validation.perplexity.has_value(), model.name != "bert") << model.name;
      EXPECT_DOUBLE_EQ(result.report.validation.perplexity.value_or(std::exp(result.report.validation.loss)),
                       std::exp(result.report.validation.loss));
    }
    EXPECT_EQ(sha[0], sha[1]) << model.name;
    EXPECT_EQ(losses[0], losses[1]) << model.name;
    EXPECT_LT(losses[0].back(), losses[0].front()) << model.name;
  }
}

TEST_F(TrainerTest, MicroBatchesFormStepsBatch) {
  auto whole = text_job(4);
  whole.attach.clip = 0;
  auto cut = whole;
  whole.train.batch = 4;
  cut.train.batch = 2;
  cut.train.accumulate = 2;
  cut.attach.accumulate = 2;
  cut.run_dir = folder_ / "cut";
  const auto a = run(whole, 1).report, b = run(cut, 1).report;
  for (std::size_t i = 0; i < a.steps.losses.size(); ++i)
    EXPECT_NEAR(a.steps.losses[i], b.steps.losses[i], 1e-4) << "step " << i + 1;
  EXPECT_EQ(a.work.tokens, b.work.tokens);
}

// A step takes the samples, with the weights, that a single rank would take.
TEST_F(TrainerTest, UnequalSharesTrainLikeEqual) {
  auto one = text_job(4);
  one.train.batch = 8;
  auto job = text_job(4);
  std::vector<std::vector<std::int64_t>> all = {{4, 4}, {7, 1}, {2, 6}};
  std::vector<RunReport> reports = {run(one, 1).report};
  for (std::size_t i = 0; i < all.size(); ++i) {
    job.train.share = {.kind = ShareKind::kGiven, .given = all[i]};
    job.run_dir = folder_ / fmt::format("shares{}", i);
    reports.push_back(run(job, 2).report);
    EXPECT_EQ(reports.back().shares, all[i]);
    EXPECT_EQ(reports.back().work.tokens, reports.front().work.tokens);
    for (std::size_t step = 0; step < 4; ++step)
      EXPECT_NEAR(reports.back().steps.losses[step], reports.front().steps.losses[step], 1e-4)
          << i << ", step " << step + 1;
    EXPECT_NEAR(reports.back().validation.loss, reports.front().validation.loss, 1e-4);
  }
  auto equal = text_job(4);
  equal.run_dir = folder_ / "equal";
  EXPECT_EQ(run(equal, 2).report.parameters_sha256, reports[1].parameters_sha256) << "equal shares give equal bits";
}

TEST_F(TrainerTest, TheRunFolderIsComplete) {
  auto job = text_job(5);
  job.config_text = "[model]\nname = \"gpt2\"\n";
  run(job, 2);
  EXPECT_EQ(read_file(folder_ / "run/config.toml"), job.config_text);
  const auto plan = read_file(folder_ / "run/plan.txt");
  EXPECT_NE(plan.find("stage 3 on 2 ranks"), std::string::npos);
  EXPECT_NE(out_.find(plan), std::string::npos) << "the printed plan is the plan in the file";
  EXPECT_EQ(out_.substr(0, 8), "ranks: 2");
  const auto model = SafetensorsFile::open(folder_ / "run/model.safetensors");
  EXPECT_EQ(model.at("transformer.wte.weight").shape, (std::vector<std::int64_t>{256, 16}));
  EXPECT_EQ(model.entries().size(), 2 + 2 * 12 + 2U);
}

TEST_F(TrainerTest, TheReportAgreesWithTheRun) {
  const auto result = run(text_job(5), 2).report;
  const auto written = report();
  EXPECT_EQ(written["world"], 2);
  EXPECT_EQ(written["steps"], 5);
  EXPECT_EQ(written["stage"], 3);
  EXPECT_EQ(written["dtype"], "fp32");
  EXPECT_EQ(written["losses"].size(), 5U);
  EXPECT_EQ(written["grad_norms"].size(), 5U);
  EXPECT_EQ(written["step_seconds"].size(), 5U);
  EXPECT_EQ(written["loss_bits"][4], float_bits(result.steps.losses[4]));
  EXPECT_EQ(written["parameters_sha256"], result.parameters_sha256);
  EXPECT_EQ(written["transport"], "in_process");
  EXPECT_EQ(written["memory_bytes"].size(), 2U);
  EXPECT_GT(written["memory_bytes"][1]["moment"], 0);
  EXPECT_GT(written["sent_bytes_per_step"][0], 0);
  EXPECT_GT(written["val_loss"], 0);
  EXPECT_GT(written["startup_s"], 0);
  EXPECT_GT(written["peak_rss"][0], written["parameters_sha256"].size());
  EXPECT_GT(written["utilization"], 0);
}

// Each step and each evaluation adds one line. The line of a step precedes that of its evaluation.
TEST_F(TrainerTest, StepsAndEvaluationsAddMetricsLines) {
  auto job = text_job(6);
  job.train.eval_every = 4;
  job.train.eval_batches = 1;
  run(job, 2);
  std::vector<std::int64_t> steps, evaluations;
  for (const auto& line : metrics()) {
    (line.contains("val_loss") ? evaluations : steps).push_back(line["step"]);
    EXPECT_EQ(steps.back(), line["step"]);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(evaluations, (std::vector<std::int64_t>{4, 6}));
  const auto written = report();
  for (const auto& line : metrics()) {
    if (!line.contains("loss")) continue;
    EXPECT_FLOAT_EQ(line["loss"], written["losses"][line["step"].get<std::size_t>() - 1]);
  }
}

TEST_F(TrainerTest, EvaluationDoesNotChangeTheRun) {
  auto plain = text_job(6);
  const auto expected = run(plain, 2).report.parameters_sha256;
  auto evaluated = text_job(6);
  evaluated.run_dir = folder_ / "evaluated";
  evaluated.train.eval_every = 2;
  EXPECT_EQ(run(evaluated, 2).report.parameters_sha256, expected);
}

// The weights in a run's file, by name.
std::map<std::string, std::vector<float>> weights_in(const fs::path& path) {
  const auto file = SafetensorsFile::open(path);
  std::map<std::string, std::vector<float>> weights;
  for (const SafetensorsEntry& entry : file.entries()) {
    std::vector<float>& values = weights[entry.name];
    values.resize(static_cast<std::size_t>(entry.numel()));
    file.read(entry, 0, std::as_writable_bytes(std::span(values)));
  }
  return weights;
}

// Runs of one, two and three steps give the weights in the average of a run of three steps. A run with a learning rate
// of almost 0 gives the first weights. A network of one layer is evaluated by hand in double. The averaged weights are
// reported and written.
TEST_F(TrainerTest, AveragedWeightsMatchHandWritten) {
  constexpr int kPixels = 4, kClasses = 3, kImages = 60, kHeldOut = 20;
  std::string pixels, labels;
  for (int i = 0; i < kImages; ++i) {
    labels.push_back(static_cast<char>(i * 7 % kClasses));
    for (int k = 0; k < kPixels; ++k)
      pixels.push_back(static_cast<char>((i * 37 + k * 91 + i % kClasses * k * 40) % 256));
  }
  folder_.write("t10k-images-idx3-ubyte", idx_images(kImages, 2, 2, pixels));
  folder_.write("t10k-labels-idx1-ubyte", idx_labels(labels));
  const auto job_of = [&](std::int64_t steps, double lr, double ema) {
    TrainJob job = table_job("mlp", "", steps);
    job.model.sizes = {kPixels, kClasses};
    job.data = {.kind = DataKind::kMnist, .path = folder_.path(), .validation = kHeldOut / double{kImages}};
    job.train.eval_every = 2;
    job.schedule.lr = lr;
    job.attach.ema = ema;
    job.run_dir = folder_ / fmt::format("{}-{}-{}", steps, lr, ema);
    run(job, 2);
    return job.run_dir;
  };
  using Weights = std::map<std::string, std::vector<float>>;
  const auto moved = [](Weights average, const Weights& weights) {
    for (auto& [name, values] : average)
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.25F * (weights.at(name)[i] - values[i]);
    return average;
  };
  std::vector<Weights> averages{weights_in(job_of(1, 1e-30, 0) / "model.safetensors")};
  for (const int steps : {1, 2, 3})
    averages.push_back(moved(averages.back(), weights_in(job_of(steps, 0.05, 0) / "model.safetensors")));
  const fs::path dir = job_of(3, 0.05, 0.75);
  EXPECT_EQ(weights_in(dir / "model_ema.safetensors"), averages[3]);
  EXPECT_EQ(weights_in(dir / "model.safetensors"), weights_in(folder_ / "3-0.05-0/model.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "3-0.05-0/model_ema.safetensors"));

  const auto judged = [&](const Weights& weights) {  // mean loss and accuracy over the last images, held out
    const std::vector<float>&weight = weights.at("layers.0.weight"), &bias = weights.at("layers.0.bias");
    double loss = 0, correct = 0;
    for (int image = kImages - kHeldOut; image < kImages; ++image) {
      std::array<double, kClasses> scores{};
      for (int c = 0; c < kClasses; ++c) {
        scores[c] = bias[c];
        for (int k = 0; k < kPixels; ++k)
          scores[c] += double{weight[c * kPixels + k]} * static_cast<unsigned char>(pixels[image * kPixels + k]) / 255;
      }
      double sum = 0;
      for (const double score : scores) sum += std::exp(score);
      loss += std::log(sum) - scores[labels[image]];
      correct += std::ranges::max_element(scores) - scores.begin() == labels[image] ? 1 : 0;
    }
    return std::pair(loss / kHeldOut, correct / kHeldOut);
  };
  std::vector<std::int64_t> told;
  for (const json& line : json_lines(read_file(dir / "metrics.jsonl"))) {
    if (!line.contains("val_loss_ema")) continue;
    EXPECT_FALSE(line.contains("val_loss")) << "an average has its own line";
    const auto step = line["step"].get<std::size_t>();
    const auto [loss, accuracy] = judged(averages.at(step));
    EXPECT_NEAR(line["val_loss_ema"], loss, 1e-6) << step;
    EXPECT_DOUBLE_EQ(line["val_accuracy_ema"], accuracy) << step;
    told.push_back(line["step"]);
  }
  EXPECT_EQ(told, (std::vector<std::int64_t>{2, 3}));
  const auto [loss, accuracy] = judged(averages[3]);
  const std::string said =
      fmt::format("step 3/3  val_loss_ema {:.4f}  val_accuracy_ema {:.2f} %", loss, 100 * accuracy);
  EXPECT_NE(out_.find(said), std::string::npos) << said << " is not in\n" << out_;
}

TEST_F(TrainerTest, TheScheduleIsFollowed) {
  auto job = text_job(5);
  job.schedule = {.kind = LrKind::kLinear, .lr = 1e-2, .min_lr = 1e-3, .warmup = 2, .steps = 5};
  run(job, 1);
  for (const auto& line : metrics()) {
    if (line.contains("lr")) {
      EXPECT_DOUBLE_EQ(line["lr"], lr_at(job.schedule, line["step"].get<std::int64_t>() - 1));
    }
  }
}

TEST_F(TrainerTest, RunContinuesFromGivenWeights) {
  auto first = text_job(8);
  const auto trained = run(first, 1).report;
  auto second = text_job(1);
  second.model.init = (folder_ / "run/model.safetensors").string();
  second.run_dir = folder_ / "second";
  EXPECT_LT(run(second, 2).report.steps.losses.front(), trained.steps.losses.front() - 0.5);
}

TEST_F(TrainerTest, ASampleIsPrinted) {
  auto job = text_job(3);
  job.train.sample = 30;
  run(job, 2);
  const auto begin = out_.find("sample:\n");
  ASSERT_NE(begin, std::string::npos);
  const auto end = out_.find("\ndone:");
  ASSERT_NE(end, std::string::npos);
  EXPECT_GE(end - begin, 30U);
}

// By default, a folder with a run is refused.
TEST_F(TrainerTest, RefusesFolderWithRun) {
  auto job = text_job(2);
  run(job, 1);
  const auto before = read_file(folder_ / "run/report.json");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { run(job, 1); }), "holds a run already"));
  EXPECT_EQ(read_file(folder_ / "run/report.json"), before);
  job.overwrite = true;
  job.train.steps = 3;
  run(job, 1);
  EXPECT_EQ(report()["steps"], 3);
  EXPECT_EQ(metrics().size(), 4U) << "three steps and the evaluation, without lines of the old run";
}

TEST_F(TrainerTest, BadInputLeavesNoFolderBehind) {
  auto job = text_job(2);
  job.model.heads = 3;
  EXPECT_TRUE(says(message_of<ConfigError>([&] { run(job, 1); }), "model.heads = 3"));
  job = text_job(2);
  job.model.init = (folder_ / "absent.safetensors").string();
  EXPECT_THROW(run(job, 1), ConfigError);
  job = text_job(2);
  job.attach.device_memory = {.kind = MemoryBudget::Kind::kBytes, .bytes = 1000};
  EXPECT_TRUE(says(message_of<ConfigError>([&] { run(job, 2); }), "zero.device_memory"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

// The folder is refused before the plan.
TEST_F(TrainerTest, EveryRankRefusesUnwritableFolder) {
  TrainJob job = text_job(2);
  job.run_dir = "/proc/zero/run";
  std::ostringstream out;
  std::mutex mutex;
  int refused = 0;
  run_ranks(2, [&](World& ranks) {
    std::ostringstream nothing;
    const auto message = message_of<ConfigError>(
        [&] { train(job, ranks, {.out = ranks.rank() == 0 ? out : nothing, .style = {}, .stop = nullptr}); });
    const std::scoped_lock lock(mutex);
    if (says(message, "run.dir = /proc/zero/run: cannot be written")) ++refused;
  });
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(out.str(), "");
}

// The memory is refused before checkpoints are measured.
TEST_F(TrainerTest, RefusesMemoryBeforeCheckpoints) {
  TrainJob job = text_job(2);
  job.checkpoint = {.every_steps = 1, .keep = 1'000'000'000};  // more than the disk has room for
  const auto printed = [&] {
    std::ostringstream out;
    run_ranks(1, [&](World& ranks) {
      try {
        train(job, ranks, {.out = out, .style = {}, .stop = nullptr});
      } catch (const ConfigError& error) {
        out << error.what();
      }
    });
    return out.str();
  };
  job.attach.device_memory = {.kind = MemoryBudget::Kind::kBytes, .bytes = 1000};
  const std::string refused = printed();
  EXPECT_TRUE(says(refused, "zero.device_memory = ")) << refused;
  EXPECT_FALSE(says(refused, "1000000000 checkpoints")) << refused;
  job.attach.device_memory = {};
  EXPECT_TRUE(says(printed(), "1000000000 checkpoints"));
}

TEST_F(TrainerTest, NamesRankWithOtherConfiguration) {
  const auto job = text_job(2);
  std::mutex mutex;
  std::vector<std::string> messages;
  run_ranks(3, [&](World& world) {
    auto mine = job;
    mine.config_hash = world.rank() == 2 ? 5 : 4;
    std::ostringstream out;
    auto message = message_of<ConfigError>([&] { train(mine, world, {.out = out, .style = {}}); });
    const std::lock_guard lock(mutex);
    messages.push_back(std::move(message));
  });
  ASSERT_EQ(messages.size(), 3U);
  for (const auto& message : messages) EXPECT_TRUE(says(message, "rank 2: differs from rank 0's"));
}

// The ranks are threads that share a generator.
TEST_F(TrainerTest, SharedGeneratorRefusesDropout) {
  auto job = text_job(2);
  job.model.dropout = 0.1;
  EXPECT_TRUE(says(message_of<ConfigError>([&] { run(job, 2); }), "model.dropout = 0.1"));
  EXPECT_EQ(run(job, 1).report.steps.losses.size(), 2U) << "one rank shares its generator with no other";
}

TEST_F(TrainerTest, DropoutDependsOnSeedOnly) {
  auto job = text_job(3);
  job.model.dropout = 0.3;
  const auto first = run(job, 1).report.steps.losses;
  job.overwrite = true;
  torch::manual_seed(99);
  EXPECT_EQ(run(job, 1).report.steps.losses, first);
  job.train.seed = 7;
  EXPECT_NE(run(job, 1).report.steps.losses, first);
}

TEST_F(TrainerTest, SignalEndsRunAfterStep) {
  auto job = text_job(100000);
  const StopSignal stop;
  ::raise(SIGTERM);  // to this thread, because libtorch may have started others before
  ASSERT_EQ(stop.pending(), SIGTERM);
  const auto result = run(job, 2, &stop);
  EXPECT_EQ(result.stop_signal, SIGTERM);
  EXPECT_NE(out_.find("stopped by signal 15 after step 1"), std::string::npos);
  EXPECT_EQ(metrics().size(), 1U);
  EXPECT_FALSE(fs::exists(folder_ / "run/report.json"));
}

TEST_F(TrainerTest, NonFiniteSkipsAndCountsStep) {
  auto job = text_job(3);
  job.attach.optimizer = AdamW{.lr = 1e38};
  job.schedule.lr = 1e38;
  job.attach.max_skipped_steps = 5;
  run(job, 1);
  EXPECT_GT(report()["skipped_steps"], 0);
}

}  // namespace
}  // namespace zero
