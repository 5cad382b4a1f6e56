// Leaves in a pipeline: the bits of one rank without a pipeline, on any number of lines and sections.
#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/plan/units/leaves.h"
#include "zero/torch/pipeline/attach_pipeline.h"

#include "tests/support/message_of.h"
#include "tests/torch/pipeline/pipeline_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

constexpr int kLeaves = 8;
constexpr int kSteps = 3;

struct LeafRun {
  std::vector<double> losses;  // of the steps
  std::vector<double> grad_norms;
  std::map<std::string, torch::Tensor> weights;
};

LeafRun train_in_leaves(int lines, AttachOptions options, const PipelineOptions& pipeline) {
  options.leaves = kLeaves;
  options.clip = 0.5;
  const int world = lines * pipeline.pipeline;
  std::vector<tests::Subject> subjects;
  for (int rank = 0; rank < world; ++rank) {
    torch::manual_seed(7 + rank);
    subjects.push_back(tests::tied_net());
  }
  LeafRun run;
  tests::on_every_rank(world, [&](World& ranks) {
    const tests::Subject& subject = subjects[static_cast<std::size_t>(ranks.rank())];
    const Leaves leaves(kLeaves, lines, options.reduce);
    const int line = ranks.rank() % lines;
    PipelineEngine engine = attach_pipeline(*subject.module, ranks, options, pipeline);
    LeafRun mine;
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<double> losses = engine.passes([&](int micro) {
        return subject.loss(step, std::max(0, leaves.leaf(line, micro)), 0);  // an idle line computes any leaf
      });
      const StepReport report = engine.step(1e-2, {.leaf_losses = losses});
      mine.losses.push_back(report.loss);
      mine.grad_norms.push_back(report.grad_norm);
    }
    engine.for_each_parameter(
        [&](const std::string& name, const torch::Tensor& tensor) { mine.weights[name] = tensor.clone(); });
    if (ranks.rank() == world - 1) run = std::move(mine);
  });
  return run;
}

void expect_same_bits(const LeafRun& run, const LeafRun& expected) {
  EXPECT_NE(expected.losses.front(), expected.losses.back()) << "nothing was trained";
  EXPECT_EQ(run.losses, expected.losses);
  EXPECT_EQ(run.grad_norms, expected.grad_norms);
  ASSERT_EQ(run.weights.size(), expected.weights.size());
  for (const auto& [name, tensor] : expected.weights) EXPECT_TRUE(torch::equal(run.weights.at(name), tensor)) << name;
}

TEST(PipelineLeaves, LinesAndSectionsKeepBits) {
  const LeafRun one = train_in_leaves(1, {.stage = 0}, {.pipeline = 1});
  struct Case {
    int lines;
    int stage;
    Reduce reduce;
    PipelineOptions pipeline;
  };
  for (const Case& each : {Case{2, 2, Reduce::kAuto, {.pipeline = 1}}, Case{1, 0, Reduce::kAuto, {.pipeline = 2}},
                           Case{2, 1, Reduce::kEach, {.pipeline = 2, .schedule = PassOrder::kGpipe}},
                           Case{2, 1, Reduce::kLast, {.pipeline = 2, .schedule = PassOrder::kZbH1}},
                           Case{3, 2, Reduce::kAuto, {.pipeline = 2}},  // 4, 2 and 2 leaves: two lines are idle
                           Case{4, 3, Reduce::kAuto, {.pipeline = 2, .schedule = PassOrder::kZbH2}},
                           Case{2, 3, Reduce::kLast, {.pipeline = 3}}}) {
    SCOPED_TRACE(testing::Message() << each.lines << " lines of " << each.pipeline.pipeline << ", stage " << each.stage
                                    << ", " << name_of(each.pipeline.schedule));
    expect_same_bits(train_in_leaves(each.lines, {.stage = each.stage, .reduce = each.reduce}, each.pipeline), one);
  }
}

TEST(PipelineLeaves, WrongNumbersAreRefused) {
  const auto refusal = [](int world, AttachOptions options) {
    return message_of<ConfigError>([&] {
      tests::on_every_rank(world, [&](World& ranks) {
        torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
        attach_pipeline(*net, ranks, options, {.pipeline = 2});
      });
    });
  };
  EXPECT_TRUE(says(refusal(4, {.leaves = 1}), "train.leaves = 1"));
  EXPECT_TRUE(says(refusal(2, {.accumulate = 3, .leaves = 4}), "train.accumulate is 3"));
  EXPECT_TRUE(says(refusal(4, {.group = 1, .leaves = 4}), "(zero.group)"));
}

}  // namespace
}  // namespace zero
