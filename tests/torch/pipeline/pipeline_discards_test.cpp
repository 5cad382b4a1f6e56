// A pipeline drops the passes of a step: zero_grad() and discard_gradients() leave no trace in later steps.
#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/torch/pipeline/pipeline_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::expect_same_bits;
using tests::PipelinedRun;
using tests::Subject;
using tests::train_pipelined;

constexpr int kSteps = 4;
constexpr int kMicros = 4;

// Eight layers, so there are parts for four sections.
Subject mlp() {
  torch::nn::Sequential net;
  for (int i = 0; i < 8; ++i) net->push_back(torch::nn::Linear(6, 6));
  return {net.ptr(), [net](int step, int micro, int rank) mutable {
            const torch::Tensor x = (torch::arange(24) * (2 * step + 3) + micro * 5 + rank * 11).remainder(17);
            return torch::mse_loss(net->forward((x.to(torch::kFloat) / 8 - 1).reshape({4, 6})), torch::ones({4, 6}));
          }};
}

// Passes over other samples than those of the step.
void run_other_passes(PipelineEngine& engine, Subject& subject, int step, int line) {
  engine.passes([&](int micro) { return subject.loss(step + 7, micro, line) / kMicros; });
}

void zero_passes(PipelineEngine& engine, Subject& subject, int step, int line) {
  if (step == 2) return;
  run_other_passes(engine, subject, step, line);
  subject.module->zero_grad();
}

void discard_passes(PipelineEngine& engine, Subject& subject, int step, int line) {
  engine.discard_gradients();  // nothing is pending; at step 0 the model is not attached yet
  if (step == 2) return;
  run_other_passes(engine, subject, step, line);
  engine.discard_gradients();
  engine.discard_gradients();
}

// The bits are those of a run without a pipeline in which nothing was dropped.
TEST(PipelineDiscards, LeaveNoTraceAtAnyStage) {
  for (int stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(testing::Message() << "stage " << stage);
    const AttachOptions options{.stage = stage, .clip = 0.5, .accumulate = kMicros};
    const PipelinedRun plain = train_pipelined(2, kSteps, options, {.pipeline = 1}, tests::tied_net);
    for (const tests::BeforeStep& drop : {tests::BeforeStep(zero_passes), tests::BeforeStep(discard_passes)}) {
      expect_same_bits(train_pipelined(4, kSteps, options, {.pipeline = 2}, tests::tied_net, 1e-2, drop), plain);
      expect_same_bits(train_pipelined(2, kSteps, options, {.pipeline = 1}, tests::tied_net, 1e-2, drop), plain);
    }
  }
}

TEST(PipelineDiscards, LeaveNoTraceInAnyOrder) {
  const AttachOptions options{.stage = 2, .accumulate = kMicros};
  const PipelinedRun plain = train_pipelined(2, kSteps, options, {.pipeline = 1}, mlp);
  for (const PipelineOptions& pipeline :
       {PipelineOptions{.pipeline = 2, .schedule = PassOrder::kZbH1},
        PipelineOptions{.pipeline = 2, .sections = 4, .schedule = PassOrder::kInterleaved}}) {
    SCOPED_TRACE(name_of(pipeline.schedule));
    for (const tests::BeforeStep& drop : {tests::BeforeStep(zero_passes), tests::BeforeStep(discard_passes)})
      expect_same_bits(train_pipelined(4, kSteps, options, pipeline, mlp, 1e-2, drop), plain);
  }
}

// A scale that the passes of a step multiply losses with counts only passes that were not dropped.
TEST(PipelineDiscards, LeaveNoTraceInFp16) {
  const AttachOptions options{
      .stage = 1, .accumulate = kMicros, .dtype = DType::kFloat16, .loss_scale = LossScaleOptions{.value = 64}};
  const PipelinedRun plain = train_pipelined(2, kSteps, options, {.pipeline = 1}, tests::tied_net);
  for (const tests::BeforeStep& drop : {tests::BeforeStep(zero_passes), tests::BeforeStep(discard_passes)})
    expect_same_bits(train_pipelined(4, kSteps, options, {.pipeline = 2}, tests::tied_net, 1e-2, drop), plain);
}

// After passes() twice, step() names discard_gradients(), and that works.
TEST(PipelineDiscards, FollowARefusedStep) {
  const AttachOptions options{.stage = 2, .accumulate = kMicros};
  const PipelinedRun plain = train_pipelined(2, kSteps, options, {.pipeline = 1}, tests::tied_net);
  const auto refused = [](PipelineEngine& engine, Subject& subject, int step, int line) {
    for (int more = 0; more < 2; ++more) run_other_passes(engine, subject, step, line);
    const std::string message = message_of<ConfigError>([&] { engine.step(); });
    EXPECT_TRUE(says(message, "accumulate = 4: this step had 8 backward passes"));
    EXPECT_TRUE(says(message, "discard_gradients()"));
    engine.discard_gradients();
  };
  expect_same_bits(train_pipelined(4, kSteps, options, {.pipeline = 2}, tests::tied_net, 1e-2, refused), plain);
}

// A step without passes after the drop is refused on each rank, and the next passes work.
TEST(PipelineDiscards, NeedPassesBeforeAStep) {
  const AttachOptions options{.stage = 1, .accumulate = kMicros};
  const PipelinedRun plain = train_pipelined(2, kSteps, options, {.pipeline = 1}, tests::tied_net);
  const auto dropped = [](PipelineEngine& engine, Subject& subject, int step, int line) {
    zero_passes(engine, subject, step, line);
    if (step == 2) return;
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(); }), "gradients were dropped"));
  };
  expect_same_bits(train_pipelined(4, kSteps, options, {.pipeline = 2}, tests::tied_net, 1e-2, dropped), plain);
}

}  // namespace
}  // namespace zero
