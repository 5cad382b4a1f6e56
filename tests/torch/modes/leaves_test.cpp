// A module of your own in leaves: the same weights on any number of ranks.
#include "zero/plan/units/leaves.h"

#include <algorithm>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

using tests::Values;

// Rank 0's weights after three steps of four leaves.
Values train_in_leaves_on(int world, AttachOptions options) {
  options.leaves = 4;
  Values weights;
  std::vector<std::shared_ptr<tests::TiedNet>> nets = tests::tied_nets(world);
  tests::on_every_rank(world, [&](World& ranks) {
    tests::TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, options);
    const Leaves leaves(options.leaves, world, options.reduce);
    for (int step = 0; step < 3; ++step) {
      for (int micro = 0; micro < leaves.passes(); ++micro) {
        const int leaf = std::max(0, leaves.leaf(ranks.rank(), micro));
        engine.scaled(tests::loss_of(net, step, leaf, 0)).backward();
      }
      engine.step(1e-2);
    }
    const Values all = tests::weights_of(engine);
    if (ranks.rank() == 0) weights = all;
  });
  return weights;
}

TEST(AttachedInLeaves, WorldsKeepBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Values one = train_in_leaves_on(1, {.stage = 3, .dtype = dtype});
    for (const auto& [world, stage, reduce] : {std::tuple(2, 3, Reduce::kEach), std::tuple(2, 1, Reduce::kLast),
                                               std::tuple(3, 3, Reduce::kAuto), std::tuple(4, 0, Reduce::kAuto)})
      EXPECT_TRUE(tests::same_bits(train_in_leaves_on(world, {.stage = stage, .reduce = reduce, .dtype = dtype}), one))
          << world << " ranks, stage " << stage;
  }
}

TEST(AttachedInLeaves, RunningStatisticsAreRefused) {
  tests::on_every_rank(2, [&](World& ranks) {
    torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
    const std::string message = message_of<ConfigError>([&] { attach(*net, ranks, {.leaves = 4}); });
    EXPECT_TRUE(says(message, "train.leaves = 4: the module keeps running statistics")) << message;
  });
}

}  // namespace
}  // namespace zero
