// Modules that were not written for zero.cpp, in a pipeline: the bits of no pipeline, or an error that names the limit.
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/torch/pipeline/attach_pipeline.h"

#include "tests/support/message_of.h"
#include "tests/torch/foreign_modules.h"
#include "tests/torch/pipeline/pipeline_run.h"

namespace zero {
namespace {

using tests::expect_same_bits;
using tests::ForeignModule;
using tests::PipelinedRun;

constexpr int kSteps = 3;
constexpr std::string_view kLateGradient = "a custom autograd function uses this parameter, and the schedule zb-";

// Stage 0 has one line, and all other stages shard over two lines.
PipelinedRun train_module(const ForeignModule& module, int stage, int micros, const PipelineOptions& pipeline) {
  const int lines = stage == 0 ? 1 : 2;
  return tests::train_pipelined(lines * pipeline.pipeline, kSteps, {.stage = stage, .clip = 0.5, .accumulate = micros},
                                pipeline, module.between);
}

// ---- each module once ----------------------------------------------------------------------------------------------

struct Drawn {
  ForeignModule module;
  PassOrder order = PassOrder::kOneForwardOneBackward;
  int stage = 0;
};

std::vector<Drawn> drawn_modules() {
  constexpr std::array kOrders{PassOrder::kOneForwardOneBackward, PassOrder::kZbH1, PassOrder::kGpipe,
                               PassOrder::kZbH2};
  constexpr std::array kStages{3, 0, 1, 2};
  std::vector<Drawn> drawn;
  for (const ForeignModule& module : tests::foreign_modules()) {
    if (!module.same_every_step) continue;
    const std::size_t number = drawn.size();
    const PassOrder order = kOrders[number % kOrders.size()];
    const bool is_refused = module.in_functions && splits_backward(order);
    drawn.push_back({.module = module,
                     .order = is_refused ? PassOrder::kOneForwardOneBackward : order,
                     .stage = kStages[(number / kOrders.size() + number) % kStages.size()]});
  }
  return drawn;
}

class ForeignPipelineSlow : public ::testing::TestWithParam<Drawn> {};

TEST_P(ForeignPipelineSlow, KeepsBits) {
  const auto& [module, order, stage] = GetParam();
  constexpr int kMicros = 2;
  SCOPED_TRACE(testing::Message() << name_of(order) << ", stage " << stage);
  const PipelinedRun plain = train_module(module, stage, kMicros, {.pipeline = 1});
  expect_same_bits(train_module(module, stage, kMicros, {.pipeline = 2, .schedule = order}), plain);
}

INSTANTIATE_TEST_SUITE_P(Foreign, ForeignPipelineSlow, ::testing::ValuesIn(drawn_modules()),
                         [](const auto& info) { return info.param.module.name; });

// ---- orders, sections, stages and micro-batches --------------------------------------------------------------------

// A refusal must name its reason: too few parts, or parameters of custom autograd functions whose gradients come late.
void expect_bits_or_refusal(const ForeignModule& module, int stage, int micros, const PipelineOptions& pipeline,
                            const PipelinedRun& plain) {
  std::string refusal;
  PipelinedRun run;
  try {
    run = train_module(module, stage, micros, pipeline);
  } catch (const ConfigError& error) {
    refusal = error.what();
  }
  if (refusal.empty()) return expect_same_bits(run, plain);
  const bool is_late = splits_backward(pipeline.schedule);
  EXPECT_TRUE(pipeline.pipeline > 2 || is_late) << "two sections are possible: " << refusal;
  const bool has_few_parts = refusal.starts_with("parallel.sections = ");
  const bool is_in_function = module.in_functions && is_late && refusal.find(kLateGradient) != refusal.npos;
  EXPECT_TRUE(has_few_parts || is_in_function) << refusal;
}

TEST(ForeignPipelineFull, EveryOrderKeepsBits) {
  for (const ForeignModule& module : tests::foreign_modules()) {
    if (!module.same_every_step) continue;
    for (const int stage : {0, 3})
      for (const int micros : {2, 4}) {
        const PipelinedRun plain = train_module(module, stage, micros, {.pipeline = 1});
        for (const int pipeline : {2, 3})
          for (const PassOrder order : {PassOrder::kOneForwardOneBackward, PassOrder::kZbH1, PassOrder::kZbV}) {
            SCOPED_TRACE(testing::Message() << module.name << ", " << name_of(order) << ", " << pipeline
                                            << " positions, stage " << stage << ", " << micros << " micro-batches");
            expect_bits_or_refusal(module, stage, micros, {.pipeline = pipeline, .schedule = order}, plain);
          }
      }
  }
}

// ---- limits --------------------------------------------------------------------------------------------------------

TEST(ForeignPipeline, FunctionsRefuseLateGradients) {
  for (const ForeignModule& module : tests::foreign_modules()) {
    if (!module.in_functions) continue;
    SCOPED_TRACE(module.name);
    const std::string text =
        message_of<ConfigError>([&] { train_module(module, 0, 2, {.pipeline = 2, .schedule = PassOrder::kZbH1}); });
    EXPECT_TRUE(says(text, "passes = net.")) << text;
    EXPECT_TRUE(says(text, kLateGradient)) << text;
    EXPECT_TRUE(says(text, "use 1f1b, gpipe or interleaved")) << text;
  }
}

// The second step skips the second layer. So an operator of each section has the weights of a layer of the other one.
TEST(ForeignPipeline, SkippedLayersAreRefused) {
  const std::string text = message_of<ConfigError>([] {
    tests::train_pipelined(2, 2, {.stage = 0, .accumulate = 2}, {.pipeline = 2}, tests::skipped_every_other_step);
  });
  EXPECT_TRUE(says(text, "passes = aten::addmm [4] [3, 4] [4, 4]: operator ")) << text;
  EXPECT_TRUE(says(text, "of the forward pass of micro-batch 0 uses a parameter [4] Float of another section")) << text;
}

struct AttentionLayers : torch::nn::Module {
  AttentionLayers() {
    register_module("first", first);
    register_module("attention", attention);
  }
  torch::nn::Linear first{8, 8};
  torch::nn::MultiheadAttention attention{8, 2};
};

std::string refusal_of(const std::function<torch::Tensor(AttentionLayers&, const torch::Tensor&)>& loss) {
  return message_of<ConfigError>([&] {
    tests::on_every_rank(2, [&](World& world) {
      const auto net = std::make_shared<AttentionLayers>();
      PipelineEngine engine = attach_pipeline(*net, world, {.stage = 0}, {.pipeline = 2});
      engine.passes([&](int) { return loss(*net, net->first(torch::ones({5, 2, 8}))); });
    });
  });
}

// Attention of libtorch compares its query with its key. The same tensor is equal without values. A copy may differ.
TEST(ForeignPipeline, ReadsOfValuesAreRefused) {
  const std::string compares = refusal_of(
      [](AttentionLayers& net, const torch::Tensor& x) { return std::get<0>(net.attention(x, x.clone(), x)).mean(); });
  EXPECT_TRUE(says(compares, "passes = aten::equal: it needs values of a tensor that one section has")) << compares;
  const std::string packs = refusal_of([](AttentionLayers& net, const torch::Tensor& x) {
    const torch::Tensor packed = std::get<0>(torch::_pack_padded_sequence(x, torch::tensor({5, 3}), false));
    return std::get<0>(net.attention(packed, packed, packed)).mean();
  });
  EXPECT_TRUE(says(packs, "passes = aten::_pack_padded_sequence: it needs values of a tensor that one section has"))
      << packs;
}

TEST(ForeignPipeline, AttentionIsEvaluated) {
  torch::set_num_threads(1);
  using Net = tests::BetweenLayers<tests::TransformerNet>;
  const std::vector<std::int64_t> sizes{5, 2, 8};
  const torch::Tensor x = tests::inputs(sizes, 0, 0, 0);
  std::vector<std::shared_ptr<Net>> nets;
  for (int rank = 0; rank < 2; ++rank) {
    torch::manual_seed(7);
    nets.push_back(std::make_shared<Net>(sizes));
  }
  const torch::NoGradGuard no_gradients;
  const torch::Tensor expected = nets.front()->forward(x);
  tests::on_every_rank(2, [&](World& world) {
    Net& net = *nets[static_cast<std::size_t>(world.rank())];
    PipelineEngine engine = attach_pipeline(net, world, {.stage = 0}, {.pipeline = 2});
    engine.prepare([&](int) { return net.forward(x).square().mean(); });
    const std::vector<torch::Tensor> results = engine.evaluate([&] { return std::vector{net.forward(x)}; });
    EXPECT_TRUE(torch::equal(results.front(), expected));
  });
}

}  // namespace
}  // namespace zero
