#include "zero/torch/attached/other_holders.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::TiedNet;
using Names = std::vector<std::string>;

Names held_elsewhere(const torch::nn::Module& module) {
  const ModelTensors model = tensors_of(module);
  return zero::held_elsewhere(parameters_of(model, {}), model);
}

TEST(OtherHolders, HandlesOfAParameterAreNone) {
  TiedNet net;
  const torch::optim::AdamW optimizer(net.parameters());
  const auto named = net.named_parameters();
  const torch::Tensor handle = net.table->weight;
  net.register_parameter("tied", net.table->weight);
  loss_of(net, 0, 0, 0).backward();
  EXPECT_EQ(held_elsewhere(net), Names{});
}

TEST(OtherHolders, ParametersOfOneAllocationAreNone) {
  ModelTensors model;
  {
    const torch::Tensor flat = torch::ones({6});
    model = {.parameters = {{.name = "a", .tensor = flat.narrow(0, 0, 3).detach().requires_grad_()},
                            {.name = "b", .tensor = flat.narrow(0, 3, 2).detach().requires_grad_()}},
             .buffers = {{.name = "c", .tensor = flat.narrow(0, 5, 1)}}};
  }
  EXPECT_EQ(held_elsewhere(parameters_of(model, {}), model), Names{});
}

TEST(OtherHolders, EachKindOfViewIsFound) {
  TiedNet net;
  {
    const torch::Tensor view = net.block(1).up->weight.t();
    EXPECT_EQ(held_elsewhere(net), Names{"blocks.1.up.weight"});
  }
  {
    const torch::Tensor detached = net.scale.detach();
    EXPECT_EQ(held_elsewhere(net), Names{"scale"});
  }
  {
    const c10::Storage storage = net.scale.storage();
    EXPECT_EQ(held_elsewhere(net), Names{"scale"});
  }
  EXPECT_EQ(held_elsewhere(net), Names{});
  net.register_buffer("copy", net.table->weight.detach().select(0, 3));
  EXPECT_EQ(held_elsewhere(net), Names{"table.weight"});
}

TEST(OtherHolders, ADetachedEngineIsNone) {
  for (const AttachOptions& options : tests::all_stages({})) {
    SCOPED_TRACE(tests::placement_of(options));
    auto nets = tests::tied_nets(2);
    tests::on_every_rank(2, [&](World& ranks) {
      TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
      Engine engine = attach(net, ranks, options);
      loss_of(net, 0, 0, ranks.rank()).backward();
      engine.step();
      engine.detach();
      EXPECT_EQ(held_elsewhere(net), Names{});
      engine = attach(net, ranks, options);
      loss_of(net, 0, 0, ranks.rank()).backward();
      EXPECT_EQ(engine.step().step, 1);
    });
  }
}

TEST(OtherHolders, ADeferredModuleHasNone) {
  const auto net = deferred([] { return std::make_shared<TiedNet>(); });
  EXPECT_EQ(held_elsewhere(*net), Names{});
  const torch::Tensor view = net->table->weight.t();
  EXPECT_EQ(held_elsewhere(*net), Names{"table.weight"});
}

// Runs in its own process, whose log shows warnings in any environment.
TEST(OtherHolders, AttachNamesThemOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto attach_with_a_view = [] {
    ::setenv("ZERO_LOG_LEVEL", "warn", 1);
    for (const AttachOptions& options : tests::all_stages({})) {
      auto nets = tests::tied_nets(2);
      tests::on_every_rank(2, [&](World& ranks) {
        TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
        const torch::Tensor view = net.block(1).up->weight.t(), other = net.scale.detach();
        const Engine engine = attach(net, ranks, options);
      });
    }
    std::exit(0);
  };
  const std::string line =
      "zero: warning: blocks.1.up.weight: another tensor shares the memory of this parameter \\(and that of 1 other "
      "parameter\\)[^\n]*\n|zero: warning: scale: another tensor[^\n]*\n";
  const std::string one = "(" + line + ")";
  EXPECT_EXIT(attach_with_a_view(), testing::ExitedWithCode(0), "^" + one + one + one + one + one + "$");
}

}  // namespace
}  // namespace zero
