// Pipelines with sections that train nothing: such a section's backward pass may bring no gradient.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "tests/torch/pipeline/pipeline_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::expect_same_bits;
using tests::PipelinedRun;
using tests::Subject;
using tests::train_pipelined;

struct FourLayers : torch::nn::Module {
  FourLayers() {
    register_module("layers", layers);
    for (int i = 0; i < 4; ++i) layers->push_back(torch::nn::Linear(6, 6));
  }
  torch::nn::LinearImpl& layer(std::size_t i) { return *layers[i]->as<torch::nn::LinearImpl>(); }
  torch::Tensor forward(torch::Tensor x) {
    for (std::size_t i = 0; i < 4; ++i) x = torch::tanh(layer(i).forward(x));
    return x;
  }
  torch::nn::ModuleList layers;
};

void freeze(torch::nn::Module& module) {
  for (torch::Tensor& parameter : module.parameters()) parameter.set_requires_grad(false);
}

// Freezes two of the four layers: `first` and the next one.
tests::MakeSubject with_frozen_layers(std::size_t first) {
  return [first]() -> Subject {
    auto net = std::make_shared<FourLayers>();
    freeze(net->layer(first));
    freeze(net->layer(first + 1));
    return {net, [net](int step, int micro, int rank) {
              const torch::Tensor x =
                  (torch::arange(24) * (step + 2) + micro + rank * 5).remainder(7).to(torch::kFloat) / 4 - 1;
              return torch::mse_loss(net->forward(x.view({4, 6})), torch::full({4, 6}, 0.5));
            }};
  };
}

void expect_bits_of_one_section(const tests::MakeSubject& make, const std::vector<std::string>& first_units) {
  for (const int stage : {0, 1, 3}) {
    const AttachOptions options{.stage = stage, .clip = 0.5, .accumulate = 2};
    const PipelinedRun plain = train_pipelined(2, 4, options, {.pipeline = 1}, make);
    for (const PassOrder order : {PassOrder::kOneForwardOneBackward, PassOrder::kGpipe, PassOrder::kZbH1}) {
      SCOPED_TRACE(testing::Message() << "stage " << stage << ", " << name_of(order));
      const PipelineOptions pipeline{.pipeline = 2, .schedule = order, .first_units = first_units};
      expect_same_bits(train_pipelined(4, 4, options, pipeline, make), plain);
    }
  }
}

TEST(FrozenSections, FirstSectionKeepsBits) {
  expect_bits_of_one_section(with_frozen_layers(0), {"layers.2"});
}

TEST(FrozenSections, LastSectionKeepsBits) {
  expect_bits_of_one_section(with_frozen_layers(2), {"layers.2"});
}

// The lookup section has only the frozen table.
TEST(FrozenSections, TiedTableKeepsBits) {
  expect_bits_of_one_section(
      [] {
        Subject subject = tests::tied_net();
        freeze(*dynamic_cast<tests::TiedNet&>(*subject.module).table);
        return subject;
      },
      {});
}

TEST(FrozenSections, LeavesKeepBits) {
  const AttachOptions options{.stage = 1, .leaves = 2};
  const PipelinedRun plain = train_pipelined(1, 4, options, {.pipeline = 1}, with_frozen_layers(0));
  const PipelineOptions pipeline{.pipeline = 2, .first_units = {"layers.2"}};
  expect_same_bits(train_pipelined(2, 4, options, pipeline, with_frozen_layers(0)), plain);
}

// Runs in its own process, whose log shows warnings in any environment.
TEST(FrozenSections, AreNoReasonToWarn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto train_and_read_log = [] {
    ::setenv("ZERO_LOG_LEVEL", "warn", 1);
    testing::internal::CaptureStderr();
    const PipelineOptions pipeline{.pipeline = 2, .first_units = {"layers.2"}};
    train_pipelined(2, 2, {.stage = 1, .accumulate = 2}, pipeline, with_frozen_layers(0));
    const std::string log = testing::internal::GetCapturedStderr();
    std::exit(log.find("updates nothing") == std::string::npos ? 0 : 1);
  };
  EXPECT_EXIT(train_and_read_log(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace zero
