// The loss scale of fp16 in a pipeline: all sections have the scale of the whole model.
#include <gtest/gtest.h>

#include "tests/torch/pipeline/pipeline_run.h"

namespace zero {
namespace {

using tests::expect_same_bits;
using tests::PipelinedRun;
using tests::Subject;
using tests::train_pipelined;

// Three layers; the last is the head. Inputs have the type of the next layer's weight, and the loss is in fp32.
struct ThreeLayers : torch::nn::Module {
  ThreeLayers() {
    register_module("layers", layers);
    for (int i = 0; i < 3; ++i) layers->push_back(torch::nn::Linear(6, 6));
  }
  torch::nn::LinearImpl& layer(std::size_t i) { return *layers[i]->as<torch::nn::LinearImpl>(); }
  torch::Tensor forward(torch::Tensor x) {
    for (std::size_t i = 0; i < 2; ++i) x = torch::tanh(layer(i).forward(x.to(layer(i).weight.scalar_type())));
    return layer(2).forward(x.to(layer(2).weight.scalar_type())).to(torch::kFloat);
  }
  torch::nn::ModuleList layers;
};

Subject subject_of(const std::shared_ptr<ThreeLayers>& net) {
  return {net, [net](int step, int micro, int) {
            const torch::Tensor x = (torch::arange(24) * (step + 2) + micro).remainder(7).to(torch::kFloat) / 4 - 1;
            return torch::mse_loss(net->forward(x.view({4, 6})), torch::ones({4, 6})) / 16;
          }};
}

void expect_bits_of_one_section(const AttachOptions& options, const tests::MakeSubject& make) {
  const PipelinedRun plain = train_pipelined(1, 4, options, {.pipeline = 1}, make);
  for (const PassOrder order : {PassOrder::kOneForwardOneBackward, PassOrder::kZbH1}) {
    SCOPED_TRACE(name_of(order));
    const PipelineOptions pipeline{.pipeline = 2, .schedule = order, .first_units = {"layers.2"}};
    expect_same_bits(train_pipelined(2, 4, options, pipeline, make), plain);
  }
}

// The section of the loss trains nothing.
TEST(PipelineLossScale, FrozenHeadScalesTheLoss) {
  expect_bits_of_one_section({.stage = 1, .accumulate = 2, .dtype = DType::kFloat16}, [] {
    auto net = std::make_shared<ThreeLayers>();
    for (torch::Tensor& parameter : net->layer(2).parameters()) parameter.set_requires_grad(false);
    return subject_of(net);
  });
}

// The section of the loss trains only fp32.
TEST(PipelineLossScale, HeadInFp32ScalesTheLoss) {
  expect_bits_of_one_section({.stage = 1, .accumulate = 2}, [] {
    auto net = std::make_shared<ThreeLayers>();
    for (std::size_t i = 0; i < 2; ++i) net->layer(i).to(torch::kHalf);
    return subject_of(net);
  });
}

// The first section trains only fp32, and divides its gradients by the scale of the loss.
TEST(PipelineLossScale, SectionInFp32DividesByIt) {
  expect_bits_of_one_section({.stage = 1, .accumulate = 2}, [] {
    auto net = std::make_shared<ThreeLayers>();
    net->layer(2).to(torch::kHalf);
    return subject_of(net);
  });
}

}  // namespace
}  // namespace zero
