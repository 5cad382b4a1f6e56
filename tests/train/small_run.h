// SmallRunTest: a fixture for runs of `zero train` that are small enough for a test.
#pragma once

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/files/file.h"

#include "app/train/run/trainer.h"
#include "tests/comm/transport/worlds.h"
#include "tests/support/json_lines.h"
#include "tests/support/temporary_folder.h"

namespace zero {

class SmallRunTest : public testing::Test {
 protected:
  // A small language model on a regular text. It trains into the folder `run`.
  TrainJob text_job(std::int64_t steps) const {
    std::string text;
    for (int i = 0; i < 400; ++i) text += i % 2 == 0 ? "hello world, " : "good night moon. ";
    TrainJob job;
    job.model = {.name = "gpt2", .layers = 2, .width = 16, .heads = 2, .context = 16};
    job.data = {.kind = DataKind::kText, .path = folder_.write("text.txt", text), .validation = 0.1};
    job.train = {.steps = steps, .batch = 4, .eval_every = 0, .log_every = 5};
    job.schedule = {.kind = LrKind::kConstant, .lr = 1e-2, .warmup = 0, .steps = steps};
    job.attach = {.stage = 3, .optimizer = AdamW{.lr = 1e-2}, .clip = 1.0};
    job.run_dir = folder_ / "run";
    job.config_text = "[train]\n";
    return job;
  }

  // Data of a model that reads texts: lines in their words' order, or in another order.
  DataOptions word_order_data() const {
    std::string lines;
    for (int i = 0; i < 60; ++i)
      lines += std::string("to be or not to be ") + (i % 2 == 0 ? "oh" : "sir") + " that is the question\n";
    return {.kind = DataKind::kWordOrder, .path = folder_.write("lines.txt", lines), .validation = 0.1};
  }

  // Returns rank 0's result. Rank 0's output is in out_.
  TrainResult run(const TrainJob& job, int world, const StopSignal* stop = nullptr) {
    TrainResult result;
    std::ostringstream out;
    run_ranks(world, [&](World& ranks) {
      std::ostringstream nothing;
      auto mine = train(job, ranks, {.out = ranks.rank() == 0 ? out : nothing, .style = {}, .stop = stop});
      EXPECT_EQ(nothing.str(), "") << "only rank 0 prints";
      if (ranks.rank() == 0) result = std::move(mine);
    });
    out_ = out.str();
    return result;
  }

  static void expect_same_run(const TrainResult& run, const TrainResult& expected) {
    EXPECT_EQ(run.report.steps.losses, expected.report.steps.losses);
    EXPECT_EQ(run.report.steps.grad_norms, expected.report.steps.grad_norms);
    EXPECT_EQ(run.report.parameters_sha256, expected.report.parameters_sha256);
    EXPECT_EQ(run.report.validation.loss, expected.report.validation.loss);
    EXPECT_EQ(run.report.validation.accuracy, expected.report.validation.accuracy);
    EXPECT_EQ(run.report.work.tokens, expected.report.work.tokens);
  }

  // The lines of metrics.jsonl.
  std::vector<nlohmann::json> metrics() const { return json_lines(read_file(folder_ / "run/metrics.jsonl")); }

  TemporaryFolder folder_;
  std::string out_;
};

}  // namespace zero
