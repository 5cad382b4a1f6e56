// detach(), passes inside a frozen() scope, and backward passes of gradients.
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::TiedNet;

TEST(Detach, GivesParametersBackAndEndsEngine) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.stage = 3});
    loss_of(net, 0, 0, ranks.rank()).backward();
    engine.step();
    const torch::Tensor trained = engine.full_state("table.weight");
    engine.detach();
    EXPECT_TRUE(tests::same_bits(net.table->weight.detach(), trained));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(); }), "this engine has ended"));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.detach(); }), "this engine has ended"));
    Engine again = attach(net, ranks, {.stage = 1});
    EXPECT_EQ(again.report().stage, 1);
  });
}

// After the refusal the engine continues.
TEST(Detach, GatheredScopeIsRefused) {
  TiedNet net;
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, {.stage = 3});
    {
      const auto whole = engine.gathered(net);
      EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.detach(); }), "gathered() scope"));
    }
    loss_of(net, 0, 0, 0).backward();
    EXPECT_EQ(engine.step().step, 1);
  });
}

TEST(Gathered, TakesTensorsInsteadOfAModule) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.stage = 3});
    {
      const auto whole = engine.gathered({net.scale}, /*source_rank=*/1);
      if (ranks.rank() == 1) *net.scale.mutable_data_ptr<float>() = 5;
    }
    EXPECT_EQ(engine.full_state("scale").item<float>(), 5);
    EXPECT_TRUE(says(message_of<ConfigError>([&] { const auto none = engine.gathered({torch::ones({2})}); }),
                     "not the attached module"));
  });
}

// ---- frozen()

// Parameters after two steps. `passes_before`: a pass through the frozen model precedes each step.
std::vector<torch::Tensor> after_a_step(AttachOptions options, bool passes_before) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, options);
    for (int step = 0; step < 2; ++step) {
      if (passes_before) {
        const torch::Tensor bias = torch::zeros({11}, torch::requires_grad());
        const auto frozen = engine.frozen();
        (net.forward(tests::tokens_of(9, 0, 0)) + bias).pow(2).mean().backward();
        EXPECT_TRUE(bias.grad().defined()) << "other tensors keep their gradients";
      }
      loss_of(net, step, 0, ranks.rank()).backward();
      engine.step();
    }
    EXPECT_EQ(engine.report().trace_mismatches, 0);
  });
  std::vector<torch::Tensor> values;
  for (const torch::Tensor& value : nets[0]->parameters()) values.push_back(value.detach().clone());
  return values;
}

TEST(Frozen, PassesLeaveNothingBehind) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const AttachOptions& options : tests::all_stages({.optimizer = AdamW{.lr = 1e-2}, .dtype = dtype}))
      EXPECT_TRUE(tests::same_bits(after_a_step(options, false), after_a_step(options, true)))
          << tests::placement_of(options);
  }
}

// ---- the gradient of a gradient

torch::nn::Sequential critic() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));
}

torch::Tensor penalized_loss(torch::nn::Sequential& net, int step, torch::ScalarType type) {
  const torch::Tensor x = (torch::arange(12, torch::kFloat32) * 0.1 + step).reshape({3, 4}).requires_grad_();
  const torch::Tensor y = net->forward(x.to(type)).to(torch::kFloat32);
  const torch::Tensor slope = torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
  return (slope.norm(2, 1) - 1).pow(2).mean() + y.pow(2).mean();
}

TEST(GradientPenalty, HasTheBitsOfPlainAutograd) {
  torch::nn::Sequential plain = critic();
  penalized_loss(plain, 0, torch::kFloat32).backward();
  for (const AttachOptions& options : tests::all_stages({})) {
    torch::nn::Sequential net = critic();
    tests::on_every_rank(1, [&](World& ranks) {
      Engine engine = attach(*net, ranks, options);
      penalized_loss(net, 0, torch::kFloat32).backward();
      for (const auto& item : plain->named_parameters())
        EXPECT_TRUE(tests::same_bits(engine.gradient(item.key()), item.value().grad())) << item.key();
      EXPECT_EQ(engine.step().step, 1);
    });
  }
}

TEST(GradientPenalty, IsNoMicroBatch) {
  for (const int accumulate : {1, 2}) {
    for (const AttachOptions& options : tests::all_stages({.accumulate = accumulate, .dtype = DType::kBFloat16})) {
      torch::nn::Sequential net = critic();
      tests::on_every_rank(1, [&](World& ranks) {
        Engine engine = attach(*net, ranks, options);
        for (int step = 0; step < 3; ++step) {
          for (int micro = 0; micro < accumulate; ++micro) penalized_loss(net, micro, torch::kBFloat16).backward();
          EXPECT_EQ(engine.step().step, step + 1) << tests::placement_of(options);
        }
        EXPECT_EQ(engine.report().trace_mismatches, 0);
      });
    }
  }
}

}  // namespace
}  // namespace zero
