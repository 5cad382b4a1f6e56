// A module of your own in leaves: the same weights on any number of ranks.
#include "zero/plan/units/leaves.h"

#include <algorithm>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/torch/foreign_modules.h"
#include "tests/torch/subjects.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

using tests::Values;

constexpr int kLeaves = 4;

// Rank 0's weights after three steps of four leaves.
Values train_in_leaves_on(int world, AttachOptions options) {
  options.leaves = kLeaves;
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

Values train_in_leaves_on(int world, AttachOptions options, const tests::MakeSubject& make) {
  options.leaves = kLeaves;
  Values weights;
  std::vector<tests::Subject> subjects;
  for (int rank = 0; rank < world; ++rank) {
    torch::manual_seed(7 + rank);  // only rank 0's weights count
    subjects.push_back(make());
  }
  tests::on_every_rank(world, [&](World& ranks) {
    const tests::Subject& subject = subjects[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(*subject.module, ranks, options);
    const Leaves leaves(options.leaves, world, options.reduce);
    for (int step = 0; step < 3; ++step) {
      for (int micro = 0; micro < leaves.passes(); ++micro) {
        const int leaf = std::max(0, leaves.leaf(ranks.rank(), micro));
        engine.scaled(subject.loss(step, leaf, 0)).backward();
      }
      engine.step(1e-2);
    }
    const Values all = tests::weights_of(engine);
    if (ranks.rank() == 0) weights = all;
  });
  return weights;
}

// Modules that were not written for zero.cpp.
TEST(AttachedInLeaves, ForeignModulesKeepBits) {
  for (const tests::ForeignModule& module : tests::foreign_modules()) {
    SCOPED_TRACE(module.name);
    if (module.keeps_statistics) {
      const std::string text = message_of<ConfigError>([&] { train_in_leaves_on(1, {.stage = 0}, module.make); });
      EXPECT_TRUE(says(text, "train.leaves = 4: the module keeps running statistics")) << text;
      continue;
    }
    const Values one = train_in_leaves_on(1, {.stage = 0, .clip = 0.5}, module.make);
    for (const auto& [world, stage, reduce] :
         {std::tuple(2, 3, Reduce::kEach), std::tuple(2, 0, Reduce::kLast), std::tuple(3, 1, Reduce::kAuto)})
      EXPECT_TRUE(tests::same_bits(
          train_in_leaves_on(world, {.stage = stage, .clip = 0.5, .reduce = reduce}, module.make), one))
          << world << " ranks, stage " << stage;
  }
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
