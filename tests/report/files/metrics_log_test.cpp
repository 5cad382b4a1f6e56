#include "app/report/files/metrics_log.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using nlohmann::json;

StepMetrics some_step() {
  StepMetrics m{
      .step = 7, .time = 1700000000.25, .loss = 2.5, .lr = 1e-4, .grad_norm = 1.25, .seconds = 0.5, .tokens = 768};
  m.samples_so_far = 84;
  m.tokens_so_far = 5376;
  m.forward = 0.1;
  m.backward = 0.2;
  m.work = {.gather = 0.01, .reduce = 0.02, .update = 0.03, .wait = 0.04};
  m.memory.device[MemoryTag::kParameter] = 100;
  m.memory.device[MemoryTag::kMoment] = 200;
  m.memory.host[MemoryTag::kMoment] = 40;
  m.memory.disk[MemoryTag::kMoment] = 5;
  m.sent_bytes = 4096;
  return m;
}

// The line may be written already, and later lines may follow it.
TEST(MetricsLog, LineOfAStepIsReplaced) {
  for (const bool written : {false, true}) {
    const TemporaryFolder folder;
    const std::filesystem::path path = std::filesystem::path(folder / "metrics.jsonl");
    MetricsLog log(path);
    StepMetrics step = some_step();
    for (step.step = 1; step.step <= 2; ++step.step) log.add(step);
    log.add(EvaluationMetrics{.step = 2, .val_loss = 3});
    if (written) log.flush();
    step.step = 2;
    step.sent_bytes = 5000;
    log.replace(step);
    step.step = 9;
    log.replace(step);  // no such step
    log.flush();
    std::ifstream file(path);
    std::vector<json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    ASSERT_EQ(lines.size(), 3U) << written;
    EXPECT_EQ(lines[0]["sent_bytes"], 4096);
    EXPECT_EQ(lines[1]["sent_bytes"], 5000);
    EXPECT_EQ(lines[2]["val_loss"], 3);
  }
}

TEST(MetricsLog, BytesAreAddedToALine) {
  StepMetrics step = some_step();
  step.sent_between_copies = 40;
  std::string line = to_json_line(step);
  const SentBytes more{.total = 1000, .between_copies = 2};
  add_sent(line, more);
  add_sent(step, more);
  EXPECT_EQ(line, to_json_line(step));
  std::string other = R"({"step": 3, "val_loss": 1})";
  add_sent(other, more);
  EXPECT_EQ(other, R"({"step": 3, "val_loss": 1})") << "an evaluation sends no bytes of a step";
}

TEST(MetricsLog, StepHasContractKeys) {
  const auto line = json::parse(to_json_line(some_step()));
  EXPECT_EQ(line["t"], 1700000000.25);
  EXPECT_EQ(line["step"], 7);
  EXPECT_EQ(line["loss"], 2.5);
  EXPECT_EQ(line["lr"], 1e-4);
  EXPECT_EQ(line["grad_norm"], 1.25);
  EXPECT_EQ(line["tokens_per_second"], 1536.0);
  EXPECT_EQ(line["step_seconds"], 0.5);
  EXPECT_EQ(
      line["phase_seconds"],
      (json{
          {"forward", 0.1}, {"backward", 0.2}, {"reduce", 0.02}, {"gather", 0.01}, {"update", 0.03}, {"wait", 0.04}}));
  EXPECT_EQ(line["memory_bytes"], (json{{"parameter", 100},
                                        {"gradient", 0},
                                        {"master", 0},
                                        {"moment", 200},
                                        {"gathered", 0},
                                        {"staging", 0},
                                        {"activation", 0},
                                        {"secondary", 0},
                                        {"total", 300}}));
  EXPECT_EQ(line["host_bytes"], 40);
  EXPECT_EQ(line["disk_bytes"], 5);
  EXPECT_EQ(line["sent_bytes"], 4096);
  EXPECT_EQ(line["samples"], 84) << "so far";
  EXPECT_EQ(line["tokens"], 5376);
  EXPECT_EQ(line.size(), 14U);
}

TEST(MetricsLog, CopiesAddTrafficBetweenThem) {
  StepMetrics step = some_step();
  EXPECT_FALSE(json::parse(to_json_line(step)).contains("sent_between_copies"));
  step.sent_between_copies = 1024;
  EXPECT_EQ(json::parse(to_json_line(step))["sent_between_copies"], 1024);
  EXPECT_FALSE(json::parse(to_json_line(step)).contains("sent_between_groups"));
  step.sent_between_groups = 512;
  EXPECT_EQ(json::parse(to_json_line(step))["sent_between_groups"], 512);
}

TEST(MetricsLog, ServersAddTheirFigures) {
  StepMetrics step = some_step();
  EXPECT_FALSE(json::parse(to_json_line(step)).contains("served"));
  step.served = {.updates = 3, .dropped = 1, .mean_age = 1.5, .most_age = 2, .pushed_bytes = 40, .pulled_bytes = 80};
  const json served = json::parse(to_json_line(step))["served"];
  EXPECT_EQ(served["updates"], 3);
  EXPECT_EQ(served["dropped"], 1);
  EXPECT_EQ(served["mean_age"], 1.5);
  EXPECT_EQ(served["pulled_bytes"], 80);
}

TEST(MetricsLog, RanksAddTheirFigures) {
  StepMetrics step = some_step();
  EXPECT_FALSE(json::parse(to_json_line(step)).contains("ranks"));
  step.ranks = {{.steps = 1, .waited_seconds = 0.5}, {.steps = 1}};
  EXPECT_EQ(json::parse(to_json_line(step))["ranks"]["wait_seconds"], (json{0.5, 0}));
}

TEST(MetricsLog, LossScaleAppearsIfUsed) {
  StepMetrics step = some_step();
  step.loss_scale = 32768;
  const auto line = json::parse(to_json_line(step));
  EXPECT_EQ(line["loss_scale"], 32768.0);
  EXPECT_EQ(line.size(), 15U);
}

TEST(MetricsLog, CountsRowsWithoutTokens) {
  StepMetrics step = some_step();
  step.has_tokens = false;
  const auto line = json::parse(to_json_line(step));
  EXPECT_EQ(line["rows_per_second"], 1536.0);
  EXPECT_FALSE(line.contains("tokens_per_second"));
  EXPECT_EQ(line["samples"], 84);
  EXPECT_FALSE(line.contains("tokens"));
}

TEST(MetricsLog, TransfersAreThereWhereAnythingCrossed) {
  StepMetrics step = some_step();
  step.transfers = {
      .requests = {.disk = {.read_bytes = 300, .written_bytes = 200, .waited_seconds = 0.25, .busy_seconds = 0.5}}};
  EXPECT_EQ(json::parse(to_json_line(step))["transfers"],
            (json{{"disk", {{"read_bytes", 300}, {"written_bytes", 200}, {"exposed_seconds", 0.25}}}}))
      << "there is no link";
  step.transfers->link = {.up_bytes = 7,
                          .down_bytes = 8,
                          .busy_seconds = 1,
                          .waited_seconds = 0.75,
                          .up_busy_seconds = 0.5,
                          .up_waited_seconds = 0.25};
  const auto transfers = json::parse(to_json_line(step))["transfers"];
  EXPECT_EQ(transfers["link_up"], (json{{"bytes", 7}, {"exposed_seconds", 0.25}}));
  EXPECT_EQ(transfers["link_down"], (json{{"bytes", 8}, {"exposed_seconds", 0.5}}));
}

TEST(MetricsLog, NumbersKeepAllTheirDigits) {
  auto step = some_step();
  step.loss = 1.0 / 3;
  EXPECT_EQ(json::parse(to_json_line(step))["loss"].get<double>(), 1.0 / 3);
}

TEST(MetricsLog, NonFiniteBecomesNull) {
  auto step = some_step();
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.grad_norm = std::numeric_limits<double>::infinity();
  const auto line = json::parse(to_json_line(step));
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["grad_norm"].is_null());
}

TEST(MetricsLog, AnEvaluationCarriesItsLoss) {
  const auto line =
      json::parse(to_json_line(EvaluationMetrics{.step = 250, .time = 3, .val_loss = 1.88, .seconds = 0.5}));
  EXPECT_EQ(line["step"], 250);
  EXPECT_EQ(line["val_loss"], 1.88);
  EXPECT_FALSE(line.contains("loss"));
}

TEST(MetricsLog, FlushWritesLinesInOrder) {
  const TemporaryFolder folder;
  MetricsLog log(folder / "metrics.jsonl");
  const auto contents = [&] {
    std::ifstream file(folder / "metrics.jsonl");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  log.add(some_step());
  log.add(EvaluationMetrics{.step = 8, .val_loss = 2});
  EXPECT_EQ(contents(), "");
  log.flush();
  log.flush();
  std::istringstream lines(contents());
  std::string first, second, third;
  ASSERT_TRUE(std::getline(lines, first));
  ASSERT_TRUE(std::getline(lines, second));
  EXPECT_FALSE(std::getline(lines, third)) << "a flush without new lines writes nothing";
  EXPECT_EQ(json::parse(first)["step"], 7);
  EXPECT_EQ(json::parse(second)["step"], 8);
}

}  // namespace
}  // namespace zero
