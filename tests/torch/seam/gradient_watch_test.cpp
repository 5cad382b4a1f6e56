#include "zero/torch/seam/gradient_watch.h"

#include <gtest/gtest.h>

#include <ATen/ops/_has_compatible_shallow_copy_type.h>

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::TiedNet;

// Reads .grad() of each parameter, as `p.grad` in Python does.
void read_all(const std::vector<torch::Tensor>& parameters) {
  for (const torch::Tensor& parameter : parameters) EXPECT_FALSE(parameter.grad().defined());
}

// Runs `body` with an engine whose parameters have gradients, at every stage.
void with_gradients(const std::function<void(TiedNet&, Engine&)>& body) {
  for (const AttachOptions& options : tests::all_stages({})) {
    SCOPED_TRACE(tests::placement_of(options));
    TiedNet net;
    tests::on_every_rank(1, [&](World& ranks) {
      Engine engine = attach(net, ranks, options);
      loss_of(net, 0, 0, 0).backward();
      body(net, engine);
    });
  }
}

TEST(GradientReads, CountAfterBackward) {
  with_gradients([](TiedNet& net, Engine& engine) {
    read_all(net.parameters());
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(); }), "its .grad() was read"));
    EXPECT_EQ(engine.step().step, 1);
  });
}

TEST(GradientReads, SecondBackwardForgetsNone) {
  with_gradients([](TiedNet& net, Engine& engine) {
    read_all(net.parameters());
    loss_of(net, 0, 1, 0).backward();
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(); }), "its .grad() was read"));
  });
}

TEST(GradientReads, StepEndsThem) {
  with_gradients([](TiedNet& net, Engine& engine) {
    engine.step();
    read_all(net.parameters());
    loss_of(net, 1, 0, 0).backward();
    EXPECT_EQ(engine.step().step, 2);
  });
}

// Also in plain libtorch these parameters have no gradient: the loss does not use one, and another one is frozen.
TEST(GradientReads, AbsentGradientsDoNotCount) {
  TiedNet net;
  net.block(0).up->weight.set_requires_grad(false);
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, {.stage = 3});
    net.scale.square().sum().backward();
    read_all({net.block(0).up->weight, net.block(1).up->weight, net.table->weight});
    EXPECT_EQ(engine.step().step, 1);
  });
}

TEST(GradientReads, FrozenPassesDoNotCount) {
  TiedNet net;
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, {.stage = 3});
    {
      const auto frozen = engine.frozen();
      loss_of(net, 0, 0, 0).backward();
      read_all(net.parameters());
    }
    loss_of(net, 0, 0, 0).backward();
    EXPECT_EQ(engine.step().step, 1);
  });
}

// Hooks of the graph, such as Python's hooks after accumulation, may read .grad() inside a backward pass.
TEST(GradientReads, WithinBackwardDoNotCount) {
  TiedNet net;
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, {.stage = 3});
    loss_of(net, 0, 0, 0).backward();
    int calls = 0;
    torch::Tensor x = net.block(0).forward(net.table(tests::tokens_of(0, 0, 0)));
    x.register_hook([&](const torch::Tensor& gradient) {
      ++calls;
      read_all(net.parameters());
      return gradient;
    });
    x.square().mean().backward();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(engine.step().step, 1);
  });
}

TEST(GradientReads, ZeroedParametersDoNotCount) {
  with_gradients([](TiedNet& net, Engine& engine) {
    net.block(1).zero_grad();
    read_all(net.block(1).parameters());
    loss_of(net, 0, 1, 0).backward();
    EXPECT_EQ(engine.step().step, 1);
  });
}

// Module._apply() in Python compares the types and then reads .grad.
TEST(GradientReads, MoveWithoutEffectDoesNotCount) {
  with_gradients([](TiedNet& net, Engine& engine) {
    for (torch::Tensor& parameter : net.parameters()) {
      torch::NoGradGuard none;
      const torch::Tensor moved = parameter.to(torch::kCPU);
      EXPECT_TRUE(at::_has_compatible_shallow_copy_type(parameter, moved));
      EXPECT_FALSE(parameter.grad().defined());
    }
    EXPECT_EQ(engine.step().step, 1);
  });
}

TEST(GradientReads, PausedOnesDoNotCount) {
  with_gradients([](TiedNet& net, Engine& engine) {
    {
      const GradientReadsPause pause({torch::zeros({1}), net.scale});
      read_all(net.parameters());
    }
    EXPECT_EQ(engine.step().step, 1);
    loss_of(net, 1, 0, 0).backward();
    read_all(net.parameters());
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(); }), "its .grad() was read"));
  });
}

TEST(GradientReads, CanBeForgotten) {
  with_gradients([](TiedNet& net, Engine& engine) {
    read_all(net.parameters());
    forget_gradient_reads(net.parameters());
    EXPECT_EQ(engine.step().step, 1);
  });
}

TEST(MarkZeroed, IsZeroGradOfAParameter) {
  const auto weights = [](const std::function<void(TiedNet&)>& zero_block) {
    tests::Values values;
    const auto nets = tests::tied_nets(1);
    TiedNet& net = *nets.front();
    tests::on_every_rank(1, [&](World& ranks) {
      Engine engine = attach(net, ranks, {.stage = 3});
      loss_of(net, 0, 0, 0).backward();
      zero_block(net);
      loss_of(net, 0, 1, 0).backward();
      engine.step(1e-2);
      values = tests::weights_of(engine);
    });
    return values;
  };
  const auto by_hand = weights([](TiedNet& net) {
    for (const torch::Tensor& parameter : net.block(1).parameters()) mark_zeroed(parameter);
    mark_zeroed(torch::zeros({1}));
  });
  EXPECT_TRUE(tests::same_bits(by_hand, weights([](TiedNet& net) { net.block(1).zero_grad(); })));
  EXPECT_FALSE(tests::same_bits(by_hand, weights([](TiedNet&) {})));
}

}  // namespace
}  // namespace zero
