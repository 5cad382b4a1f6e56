// attach() of tensors by name, without a torch::nn::Module.
#include "zero/torch/module/model_tensors.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

TEST(ModelTensors, TrainWithModulesBits) {
  const auto run = [](bool by_name, const AttachOptions& options) {
    auto nets = tests::tied_nets(2);
    tests::on_every_rank(2, [&](World& ranks) {
      tests::TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
      ModelTensors tensors;
      for (const auto& item : net.named_parameters())
        tensors.parameters.push_back(
            {.name = item.key(), .tensor = item.value(), .own_unit = item.key() == "table.weight"});
      Engine engine = by_name ? attach(tensors, ranks, options) : attach(net, ranks, options);
      for (int step = 0; step < 2; ++step) {
        loss_of(net, step, 0, ranks.rank()).backward();
        engine.step();
      }
    });
    return nets[0]->parameters();
  };
  for (const AttachOptions& options : tests::all_stages({.optimizer = AdamW{.lr = 1e-2}, .clip = 0.5}))
    EXPECT_TRUE(tests::same_bits(run(true, options), run(false, options))) << tests::placement_of(options);
}

TEST(ModelTensors, BuffersAreRankZerosAndSaved) {
  std::vector<torch::Tensor> weights{torch::ones({3}, torch::requires_grad()),
                                     torch::ones({3}, torch::requires_grad())};
  std::vector<torch::Tensor> counts{torch::full({2}, 5.0), torch::full({2}, 6.0)};
  tests::on_every_rank(2, [&](World& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    const Engine engine = attach(ModelTensors{.parameters = {{.name = "w", .tensor = weights[rank]}},
                                              .buffers = {{.name = "count", .tensor = counts[rank]}}},
                                 ranks, {.stage = 3});
    EXPECT_TRUE(torch::equal(counts[rank], torch::full({2}, 5.0)));
  });
}

TEST(ModelTensors, WhatWasComputedIsNoParameter) {
  tests::on_every_rank(1, [&](World& ranks) {
    const torch::Tensor computed = torch::ones({3}, torch::requires_grad()) * 2;
    const auto refused = [&] { attach(ModelTensors{.parameters = {{.name = "w", .tensor = computed}}}, ranks); };
    EXPECT_TRUE(says(message_of<ConfigError>(refused), "computed from other tensors"));
  });
}

}  // namespace
}  // namespace zero
