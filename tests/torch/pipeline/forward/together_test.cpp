#include "zero/torch/pipeline/forward/together.h"

#include <array>

#include <gtest/gtest.h>

#include "tests/support/expect_says.h"
#include "tests/support/message_of.h"
#include "tests/torch/pipeline/pipeline_run.h"

namespace zero {
namespace {

using tests::expect_same_bits;
using tests::PipelinedRun;
using tests::Subject;
using tests::train_pipelined;
using Tensors = std::vector<at::Tensor>;
using Several = std::function<Tensors(const Tensors&)>;

// Each layer scales its largest half by a parameter, as a router of experts does. A mask of positions, which every
// rank has, is read in a region of its own.
struct RoutedNet : torch::nn::Module {
  RoutedNet() {
    register_module("layers", layers);
    for (int i = 0; i < 3; ++i) layers->push_back(torch::nn::Linear(6, 6));
    scale = register_parameter("scale", torch::full({6}, 0.5));
  }
  torch::Tensor forward(torch::Tensor x) {
    const torch::Tensor even = together([](const Tensors& in) { return in[0].index({in[0].remainder(2) == 0}); },
                                        {torch::arange(6)}, torch::empty({3}, torch::kLong));
    for (const auto& layer : *layers) {
      x = layer->as<torch::nn::LinearImpl>()->forward(x);
      const bool is_last = layer == *std::prev(layers->end());
      const Several route = [&](const Tensors& in) {
        const torch::Tensor rows = (in[0].sum(1) > in[0].sum(1).median()).nonzero().view({-1});
        return Tensors{in[0].index_add(0, rows, in[0].index_select(0, rows) * in[1]), in[0].max().detach()};
      };
      const Tensors routed = together(route, {x, is_last ? scale : torch::ones({6})}, Tensors{x, torch::empty({})});
      x = torch::tanh(routed[0]) + 0.1 * routed[1];
    }
    return x.index_select(1, even);
  }
  torch::nn::ModuleList layers;
  torch::Tensor scale;
};

Subject routed_net() {
  auto net = std::make_shared<RoutedNet>();
  return {net, [net](int step, int micro, int rank) {
            const torch::Tensor x = (torch::arange(24) * (step + 2) + micro * 5 + rank).remainder(7).to(torch::kFloat);
            return torch::mse_loss(net->forward(x.view({4, 6}) / 4 - 1), torch::ones({4, 3}));
          }};
}

TEST(Together, RegionsKeepBits) {
  for (const int stage : {0, 3}) {
    const AttachOptions options{.stage = stage, .clip = 0.5, .accumulate = 4};
    const PipelinedRun plain = train_pipelined(2, 4, options, {.pipeline = 1}, routed_net);
    for (const PipelineOptions& pipeline : {PipelineOptions{.pipeline = 2}, PipelineOptions{.pipeline = 3},
                                            PipelineOptions{.pipeline = 2, .schedule = PassOrder::kZbH1}}) {
      SCOPED_TRACE(std::string(name_of(pipeline.schedule)) + ", stage " + std::to_string(stage));
      expect_same_bits(train_pipelined(2 * pipeline.pipeline, 4, options, pipeline, routed_net), plain);
    }
  }
}

TEST(Together, CallsTheFunctionWithoutAPipeline) {
  const at::Tensor x = torch::arange(3.0);
  EXPECT_EQ(together([](const Tensors& in) { return in[0] * in[0].max().item<float>(); }, {x}, x)[2].item<float>(), 4);
}

// The errors of both ranks: the rank of the section, and the one that loses it.
std::string refusal(const std::function<at::Tensor(const Tensors&)>& fn, const at::Tensor& like) {
  std::array<std::string, 2> texts;
  tests::on_every_rank(2, [&](World& world) {
    try {
      torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
      PipelineEngine engine = attach_pipeline(*net, world, {.stage = 0}, {.pipeline = 2});
      engine.passes([&](int) {
        const torch::Tensor y = net->forward(torch::ones({2, 4}));
        return (y * together(fn, {y}, like)).sum();
      });
    } catch (const std::exception& error) {
      texts[static_cast<std::size_t>(world.rank())] = error.what();
    }
  });
  return texts[0] + texts[1];
}

TEST(Together, OtherResultsThanLikeAreRefused) {
  expect_says(refusal([](const Tensors& in) { return in[0].sum(); }, torch::empty({4})),
              {"together = [] Float: the function returned this, and `like` is [4] Float"});
  expect_says(refusal([](const Tensors& in) { return in[0]; }, torch::empty({2, 4})),
              {"together = [2, 4] Float: the result needs a gradient, and `like` does not"});
  expect_says(
      refusal([](const Tensors& in) { return torch::dropout(in[0].detach(), 0.5, true); }, torch::empty({2, 4})),
      {"it draws random numbers, which the other ranks do not draw"});
}

}  // namespace
}  // namespace zero
