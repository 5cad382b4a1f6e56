// A U-Net, which nobody prepared for a pipeline: its skip connections cross one or more sections.
#include <array>

#include <gtest/gtest.h>

#include "zero/torch/pipeline/attach_pipeline.h"

#include "tests/torch/pipeline/pipeline_run.h"

namespace zero {
namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;

struct UNet : torch::nn::Module {
  UNet() {
    const auto conv = [this](const std::string& name, int in, int out) {
      return register_module(name, Conv2d(Conv2dOptions(in, out, 3).padding(1)));
    };
    down1 = conv("down1", 1, 4);
    down2 = conv("down2", 4, 8);
    bottom = conv("bottom", 8, 8);
    up2 = conv("up2", 16, 4);
    up1 = conv("up1", 8, 4);
    head = register_module("head", Conv2d(Conv2dOptions(4, 1, 1)));
    norm = register_module("norm", torch::nn::GroupNorm(2, 8));
  }
  static torch::Tensor larger(const torch::Tensor& x) {
    return torch::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)});
  }
  torch::Tensor forward(torch::Tensor x) {
    const torch::Tensor first = torch::relu(down1(x));
    const torch::Tensor second = torch::gelu(norm(down2(torch::max_pool2d(first, 2))));
    x = torch::relu(bottom(torch::max_pool2d(second, 2)));
    x = torch::relu(up2(torch::cat({larger(x), second}, 1)));
    return head(torch::relu(up1(torch::cat({larger(x), first}, 1))));
  }
  Conv2d down1{nullptr}, down2{nullptr}, bottom{nullptr}, up2{nullptr}, up1{nullptr}, head{nullptr};
  torch::nn::GroupNorm norm{nullptr};
};

tests::Subject unet() {
  auto net = std::make_shared<UNet>();
  return {net, [net](int step, int micro, int rank) {
            const torch::Tensor x = (torch::arange(128) * (2 * step + 3) + 5 * micro + 11 * rank)
                                            .remainder(17)
                                            .to(torch::kFloat)
                                            .reshape({2, 1, 8, 8}) /
                                        8 -
                                    1;
            return torch::mse_loss(net->forward(x), torch::tanh(x));
          }};
}

void expect_bits_of_no_pipeline(int pipeline, int micros, int stage,
                                PassOrder order = PassOrder::kOneForwardOneBackward) {
  SCOPED_TRACE(testing::Message() << pipeline << " sections, " << micros << " micro-batches, stage " << stage);
  const AttachOptions options{.stage = stage, .clip = 0.5, .accumulate = micros};
  const tests::PipelinedRun plain = tests::train_pipelined(2, 3, options, {.pipeline = 1}, unet);
  tests::expect_same_bits(
      tests::train_pipelined(2 * pipeline, 3, options, {.pipeline = pipeline, .schedule = order}, unet), plain);
}

TEST(UNetPipeline, KeepsBits) {
  for (const auto& [pipeline, micros, stage] : {std::array{2, 1, 3}, {3, 8, 1}, {4, 4, 0}, {4, 2, 2}})
    expect_bits_of_no_pipeline(pipeline, micros, stage);
  expect_bits_of_no_pipeline(3, 4, 3, PassOrder::kZbH1);
}

TEST(UNetPipelineSlow, EveryCutKeepsBits) {
  for (const int pipeline : {2, 3, 4})
    for (const int micros : {1, 2, 4, 8})
      for (const int stage : {0, 1, 2, 3}) expect_bits_of_no_pipeline(pipeline, micros, stage);
}

}  // namespace
}  // namespace zero
