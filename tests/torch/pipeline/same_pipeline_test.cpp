// Ranks of a pipeline with different options, models or rates: each rank gets an error that names both values.
#include <functional>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/torch/pipeline/attach_pipeline.h"

#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

struct RankOptions {
  AttachOptions options{.stage = 0, .accumulate = 4};
  PipelineOptions pipeline{.pipeline = 2};
  int width = 4;
  bool has_buffer = false;
};

// The error of all four ranks, which must be the same. Rank 2, at the second position, has options of its own.
std::string error_of(const std::function<void(RankOptions&)>& change) {
  std::set<std::string> texts;
  std::mutex writing;
  tests::on_every_rank(4, [&](World& world) {
    RankOptions mine;
    if (world.rank() == 2) change(mine);
    torch::nn::Sequential net(torch::nn::Linear(mine.width, 4), torch::nn::Linear(4, 4));
    if (mine.has_buffer) net->register_buffer("counts", torch::zeros({2}));
    const std::string text =
        message_of<ConfigError>([&] { attach_pipeline(*net, world, mine.options, mine.pipeline); });
    const std::lock_guard lock(writing);
    texts.insert(text);
  });
  EXPECT_EQ(texts.size(), 1U);
  return *texts.begin();
}

TEST(SamePipeline, DifferencesNameOptionAndRank) {
  const std::string start = "attach_pipeline() = rank 2: differs from rank 0's: ";
  EXPECT_EQ(error_of([](RankOptions& o) { o.pipeline.pipeline = 4; }),
            start + "parallel.pipeline = 4, not 2\n  give every rank the same module and the same options");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.pipeline.pipeline = 1; }), start + "parallel.pipeline = 1, not 2");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.pipeline.pipeline = 3; }), start + "parallel.pipeline = 3, not 2");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.pipeline.sections = 4; }), start + "parallel.sections = 4, not 0");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.pipeline.schedule = PassOrder::kZbH1; }),
                  start + "parallel.schedule = zb-h1, not 1f1b");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.pipeline.depth = 2; }), start + "parallel.depth = 2, not 0");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.pipeline.cut = CutBy::kSeconds; }),
                  start + "parallel.cut = measured, not work");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.pipeline.first_units = {"1"}; }),
                  start + "parallel.cut = [1], not work");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.pipeline.activation_memory = 7; }),
                  start + "parallel.activation_memory = 7, not 0");
}

// Ranks of one position compare these with each other only.
TEST(SamePipeline, PositionsHaveTheSameOptimizer) {
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.options.accumulate = 8; }), "accumulate = 8, not 4");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.options.optimizer = AdamW{.lr = 0.5}; }),
                  "optimizer.lr = 0.5, not 0.001");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.options.optimizer = Lion{}; }), "optimizer = lion, not adamw");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.options.stage = 3; }), "stage = 3, not 0");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.options.awaits_load = true; }), "awaits_load = true, not false");
}

TEST(SamePipeline, ModelsMustBeEqual) {
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.width = 6; }), "0.weight = [4, 6] fp32");
  EXPECT_CONTAINS(error_of([](RankOptions& o) { o.has_buffer = true; }), "counts");
}

TEST(PipelineNumbers, BadOnesAreRefusedByKey) {
  torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
  World world = std::move(World::in_process(1).front());
  for (const PipelineOptions& bad :
       {PipelineOptions{.sections = -1}, PipelineOptions{.depth = -1}, PipelineOptions{.activation_memory = -5}})
    EXPECT_CONTAINS(message_of<ConfigError>([&] { attach_pipeline(*net, world, {}, bad); }),
                    "must be a finite number, 0 or more");
  PipelineEngine engine = attach_pipeline(*net, world, {}, {});
  for (const double parts : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_CONTAINS(message_of<ConfigError>([&] {
                      engine.passes([&](int) { return net->forward(torch::ones({2, 4})).sum(); }, parts);
                    }),
                    "passes(parts) = ");
  EXPECT_EQ(engine.passes([&](int) { return net->forward(torch::ones({2, 4})).sum(); }).size(), 1U);
  EXPECT_EQ(engine.step().step, 1);
}

// The error that each rank gets from a step in which the second position has another rate or limit.
std::set<std::string> step_results(const std::function<std::string(PipelineEngine&, int position)>& step) {
  std::set<std::string> texts;
  std::mutex writing;
  tests::on_every_rank(4, [&](World& world) {
    torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
    PipelineEngine engine = attach_pipeline(*net, world, {.stage = 1}, {.pipeline = 2});
    engine.passes([&](int) { return net->forward(torch::ones({2, 4})).pow(2).sum(); });
    const std::string text = step(engine, world.rank() / 2);
    const std::lock_guard lock(writing);
    texts.insert(text);
  });
  return texts;
}

TEST(SamePipeline, PositionsHaveTheSameRates) {
  const auto one = step_results([](PipelineEngine& engine, int position) {
    return message_of<ConfigError>([&] { engine.step(position == 0 ? 0.1 : 0.2); });
  });
  ASSERT_EQ(one.size(), 1U);
  EXPECT_CONTAINS(*one.begin(), "step = rank 2: its learning rate is 0.2, and rank 0's is 0.1");
}

// As in a run without a pipeline. Otherwise one position would update, and the other one not.
TEST(SamePipeline, LimitsOfRankZeroCount) {
  for (const bool first_limits : {true, false}) {
    const auto skipped = step_results([&](PipelineEngine& engine, int position) {
      StepLimits limits{.loss = 1.0};
      if ((position == 0) == first_limits) limits.max_grad_norm = 1e-9;
      return std::string(name_of(engine.step(0.1, limits).reason));
    });
    EXPECT_EQ(skipped, std::set<std::string>{first_limits ? "norm spike" : ""});
  }
}

}  // namespace
}  // namespace zero
