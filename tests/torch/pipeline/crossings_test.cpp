#include "zero/torch/pipeline/pass/crossings.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/torch/pipeline/pipeline_run.h"

namespace zero {
namespace {

using tests::PipelinedRun;

// Each of its parts has a result that crosses to the second half.
struct WideNet : torch::nn::Module {
  static constexpr int kParts = 90;  // more messages a pass than a communicator holds unread
  WideNet() {
    register_module("first", first);
    register_module("second", second);
    for (int i = 0; i < kParts; ++i) {
      first->push_back(torch::nn::Linear(2, 2));
      second->push_back(torch::nn::Linear(2, 2));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    std::vector<torch::Tensor> parts;
    for (const auto& layer : *first) parts.push_back(torch::tanh(layer->as<torch::nn::LinearImpl>()->forward(x)));
    torch::Tensor sum = torch::zeros({});
    for (std::size_t i = 0; i < parts.size(); ++i)
      sum = sum + second[i]->as<torch::nn::LinearImpl>()->forward(parts[i]).pow(2).mean();
    return sum;
  }
  torch::nn::ModuleList first, second;
};

tests::Subject wide_net() {
  auto net = std::make_shared<WideNet>();
  return {net, [net](int step, int micro, int rank) {
            return net->forward(torch::full({3, 2}, 0.1 * (step + 1) + 0.3 * micro + 0.7 * rank));
          }};
}

// Rank 0 sends the values of a second micro-batch while rank 1 sends gradients of the first.
TEST(Crossings, ManyValuesDoNotBlock) {
  const AttachOptions options{.stage = 1, .accumulate = 3};
  const PipelinedRun plain = tests::train_pipelined(1, 2, options, {.pipeline = 1}, wide_net);
  const PipelineOptions pipeline{.pipeline = 2, .first_units = {"second.0"}};
  const PipelinedRun cut = tests::train_pipelined(2, 2, options, pipeline, wide_net);
  tests::expect_same_bits(cut, plain);
}

// A chain of layers, each the first of a section. Before the chain, section 0 makes many parts, which skip the sections
// up to `user`. That section first needs the result of the section before it.
struct SkipNet : torch::nn::Module {
  static constexpr int kParts = 90;  // more messages a pass than a communicator holds unread
  SkipNet(int sections, int user) : user(user) {
    register_module("first", first);
    register_module("entry", entry);
    register_module("second", second);
    register_module("layers", layers);
    for (int i = 0; i < kParts; ++i) {
      first->push_back(torch::nn::Linear(2, 2));
      second->push_back(torch::nn::Linear(2, 2));
    }
    for (int i = 1; i < sections; ++i) layers->push_back(torch::nn::Linear(2, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    std::vector<torch::Tensor> parts;
    for (const auto& layer : *first) parts.push_back(torch::tanh(layer->as<torch::nn::LinearImpl>()->forward(x)));
    torch::Tensor hidden = torch::tanh(entry->forward(x));
    for (int section = 1; section <= static_cast<int>(layers->size()); ++section) {
      const auto layer = static_cast<std::size_t>(section - 1);
      hidden = torch::tanh(layers[layer]->as<torch::nn::LinearImpl>()->forward(hidden));
      if (section != user) continue;
      for (std::size_t i = 0; i < parts.size(); ++i)
        hidden = hidden + second[i]->as<torch::nn::LinearImpl>()->forward(parts[i]) / kParts;
    }
    return hidden.pow(2).mean();
  }
  const int user;
  torch::nn::ModuleList first, second, layers;
  torch::nn::Linear entry{2, 2};
};

// All sections of a line of three ranks begin with a layer of the chain.
void expect_skips_do_not_block(int sections, int user, PassOrder order) {
  const auto make = [=]() -> tests::Subject {
    auto net = std::make_shared<SkipNet>(sections, user);
    return {net, [net](int step, int micro, int rank) {
              return net->forward(torch::full({3, 2}, 0.1 * (step + 1) + 0.3 * micro + 0.7 * rank));
            }};
  };
  PipelineOptions pipeline{.pipeline = 3, .sections = sections, .schedule = order};
  for (int section = 1; section < sections; ++section)
    pipeline.first_units.push_back("layers." + std::to_string(section - 1));
  const AttachOptions options{.stage = 1, .accumulate = 3};
  const PipelinedRun plain = tests::train_pipelined(1, 2, options, {.pipeline = 1}, make);
  const PipelinedRun cut = tests::train_pipelined(3, 2, options, pipeline, make);
  tests::expect_same_bits(cut, plain);
}

// Rank 0 sends the parts to rank 2, which waits for rank 1, which waits for rank 0.
TEST(Crossings, SkippingValuesDoNotBlock) {
  expect_skips_do_not_block(3, 2, PassOrder::kOneForwardOneBackward);
  expect_skips_do_not_block(3, 2, PassOrder::kGpipe);
}

// Rank 2 has sections 2 and 3.
TEST(Crossings, ZbVSkipsDoNotBlock) {
  expect_skips_do_not_block(6, 3, PassOrder::kZbV);
}

// The second section uses the spectrum only conjugated, so the spectrum's gradient is conjugated lazily.
struct FourierNet : torch::nn::Module {
  FourierNet() {
    register_module("layers", layers);
    for (int i = 0; i < 2; ++i) layers->push_back(torch::nn::Linear(6, 6));
  }
  torch::Tensor layer(std::size_t i, const torch::Tensor& x) {
    return torch::tanh(layers[i]->as<torch::nn::LinearImpl>()->forward(x));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor hidden = layer(0, x);
    const torch::Tensor spectrum = torch::fft::fft(hidden).narrow(1, 0, 2).clone();  // of fewer bytes than its input
    const torch::Tensor real = torch::real(spectrum), imaginary = torch::imag(spectrum);
    const torch::Tensor gate = layer(1, torch::cat({real, imaginary, real}, 1));
    return torch::real(torch::conj(spectrum) * gate.narrow(1, 0, 2)).pow(2).mean() + gate.pow(2).mean();
  }
  torch::nn::ModuleList layers;
};

TEST(Crossings, LazyConjugatesKeepBits) {
  const auto make = []() -> tests::Subject {
    auto net = std::make_shared<FourierNet>();
    return {net, [net](int step, int micro, int rank) {
              const torch::Tensor x =
                  (torch::arange(18) * (step + 2) + micro + rank * 5).remainder(7).to(torch::kFloat) / 4 - 1;
              return net->forward(x.view({3, 6}));
            }};
  };
  const AttachOptions options{.stage = 1, .accumulate = 2};
  const PipelinedRun plain = tests::train_pipelined(1, 3, options, {.pipeline = 1}, make);
  const PipelineOptions pipeline{.pipeline = 2, .first_units = {"layers.1"}};
  const PipelinedRun cut = tests::train_pipelined(2, 3, options, pipeline, make);
  tests::expect_same_bits(cut, plain);
  EXPECT_NE(cut.text.find(", 48 bytes a micro-batch"), std::string::npos) << "the spectrum crosses: " << cut.text;
}

// Only rank 0 computes the results.
TEST(Crossings, EvaluationsResolveConjugates) {
  tests::on_every_rank(2, [](World& world) {
    FourierNet net;
    const torch::Tensor x = torch::arange(18).to(torch::kFloat).view({3, 6}) / 9 - 1;
    PipelineEngine engine = attach_pipeline(net, world, {.stage = 0}, {.pipeline = 2, .first_units = {"layers.1"}});
    engine.prepare([&](int) { return net.forward(x); });
    const std::vector<torch::Tensor> found = engine.evaluate([&] {
      const torch::Tensor spectrum = torch::fft::fft(net.layer(0, x));
      return std::vector{spectrum, torch::conj(spectrum)};
    });
    EXPECT_TRUE(torch::equal(found.at(1).resolve_conj(), torch::conj(found.at(0)).resolve_conj()));
    EXPECT_GT(torch::imag(found.at(1)).abs().max().item<double>(), 0);
  });
}

}  // namespace
}  // namespace zero
