// A module on copies: `group` changes which rank holds which states, but no bit of the results.
#include <gtest/gtest.h>

#include "tests/support/tier.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::all_stages;
using tests::RunResult;

void expect_same(const RunResult& seen, const RunResult& expected, const std::string& where) {
  EXPECT_EQ(seen.loss_bits, expected.loss_bits) << where;
  EXPECT_TRUE(tests::same_bits(seen.parameters, expected.parameters)) << where;
  EXPECT_TRUE(tests::same_bits(seen.given_back, expected.given_back)) << where;
}

// Bit for bit.
TEST(AttachedCopies, MatchRanksWithoutCopies) {
  const std::vector<OptimizerOptions> optimizers{AdamW{}, Lamb{.weight_decay = 0.1}, Sgd{.momentum = 0.9}, AdamW8bit{}};
  Sweep sweep(2);
  for (const OptimizerOptions& optimizer : optimizers) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      AttachOptions options{.optimizer = optimizer, .accumulate = 2, .dtype = dtype};
      const RunResult expected = tests::train(4, 3, options, tests::tied_net);
      options.group = 2;
      for (const AttachOptions& placed : all_stages(options)) {
        if (!sweep.takes_next()) continue;
        expect_same(tests::train(4, 3, placed, tests::tied_net), expected,
                    tests::placement_of(placed) + ", " + std::string(name_of(optimizer)));
      }
    }
  }
}

TEST(AttachedCopies, SingleRankCopiesAreDataParallel) {
  AttachOptions options{.stage = 0};
  const RunResult expected = tests::train(3, 3, options, tests::tied_net);
  options.group = 1;
  for (const AttachOptions& placed : all_stages(options))
    expect_same(tests::train(3, 3, placed, tests::tied_net), expected, tests::placement_of(placed));
}

// The gradient norms are also equal.
TEST(AttachedCopies, GroupOfAllIsNoGroup) {
  AttachOptions options{.stage = 3, .clip = 0.5};
  const RunResult expected = tests::train(3, 3, options, tests::tied_net);
  options.group = 3;
  const RunResult seen = tests::train(3, 3, options, tests::tied_net);
  expect_same(seen, expected, "group 3 of 3");
  EXPECT_EQ(seen.grad_norms, expected.grad_norms);
  EXPECT_EQ(seen.reports[0].sent_bytes_per_step, expected.reports[0].sent_bytes_per_step);
  EXPECT_EQ(seen.reports[0].copies.number, 1);
}

TEST(AttachedCopies, SendGradientsAloneToOtherCopies) {
  for (const AttachOptions& placed : all_stages({.group = 2})) {
    for (const EngineReport& report : tests::train(4, 3, placed, tests::tied_net).reports) {
      EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << tests::placement_of(placed);
      EXPECT_EQ(report.copies.sent_bytes_per_step, report.copies.planned_sent_bytes);
      EXPECT_GE(static_cast<double>(report.copies.sent_bytes_per_step), report.copies.sent_formula_bytes);
      EXPECT_LE(static_cast<double>(report.copies.sent_bytes_per_step),
                report.copies.sent_formula_bytes + static_cast<double>(report.padding_bytes));
    }
  }
}

TEST(AttachedCopies, ShowTheirStatesAsOthersDo) {
  std::vector<torch::Tensor> moments;
  for (const int group : {0, 1, 2}) {
    const auto nets = tests::tied_nets(4);
    tests::on_every_rank(4, [&](World& world) {
      tests::TiedNet& net = *nets[static_cast<std::size_t>(world.rank())];
      Engine engine = attach(net, world, {.stage = 2, .group = group});
      tests::loss_of(net, 0, 0, world.rank()).backward();
      engine.step(0.01);
      const std::string name = "blocks.1.up.weight";
      const torch::Tensor whole = engine.full_state(name, "exp_avg");
      const StateShard shard = engine.state_shard(name, "exp_avg");
      if (shard.values.numel() > 0) {
        EXPECT_TRUE(tests::same_bits(shard.values,
                                     whole.reshape({-1}).narrow(0, shard.offset, shard.values.numel()).contiguous()));
      }
      {
        const GatheredScope scope = engine.gathered(net, /*source_rank=*/3);
        torch::NoGradGuard no_gradients;
        if (world.rank() == 3) net.scale.fill_(5);
      }
      EXPECT_EQ(engine.full_state("scale", "parameter").item<float>(), 5) << "rank 3 of the run wrote it for all";
      if (world.rank() == 3) moments.push_back(whole);
    });
  }
  EXPECT_TRUE(tests::same_bits(moments[1], moments[0]));
  EXPECT_TRUE(tests::same_bits(moments[2], moments[0]));
}

}  // namespace
}  // namespace zero
