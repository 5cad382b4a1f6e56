// Each step takes a rate and a weight decay for each parameter group.
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

using tests::Values;
using tests::weights_of;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Two groups: all biases, and all other parameters.
AttachOptions grouped(AttachOptions options, double bias_scale = 1) {
  options.groups = {{.matches = [](const ParamSpec& spec) { return spec.name.ends_with("bias"); },
                     .weight_decay = 0,
                     .lr_scale = bias_scale},
                    {.matches = [](const ParamSpec&) { return true; }, .weight_decay = 0.1}};
  return options;
}

using RatesOf = std::function<StepRates(int step)>;

// Weights of rank 0 after each step.
std::vector<Values> train(const AttachOptions& options, int steps, const RatesOf& rates_of) {
  std::vector<Values> weights;
  std::vector<std::shared_ptr<tests::TiedNet>> nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    tests::TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, options);
    for (int step = 0; step < steps; ++step) {
      tests::loss_of(net, step, 0, ranks.rank()).backward();
      engine.step(rates_of(step));
      if (options.delayed_update && step + 1 < steps) continue;
      const Values now = weights_of(engine);
      if (ranks.rank() == 0) weights.push_back(now);
    }
  });
  return weights;
}

std::vector<OptimizerOptions> rules() {
  return {AdamW{}, Adam{}, Sgd{.momentum = 0.9}, Lion{}, Lamb{}, AdamW8bit{}, Muon{}, Adafactor{}};
}

TEST(GroupRates, ConstantRatiosKeepBits) {
  for (const OptimizerOptions& rule : rules()) {
    const auto scaled = [](int step) { return StepRates{.lr = 1e-2 / (1 + step)}; };
    const auto given = [](int step) {
      const double lr = 1e-2 / (1 + step);
      return StepRates{.lr = lr, .by_group = {lr * 0.3, lr}, .decay_by_group = {0, 0.1}};
    };
    const auto wanted = train(grouped({.stage = 3, .optimizer = rule}, 0.3), 3, scaled);
    EXPECT_TRUE(tests::same_bits(train(grouped({.stage = 3, .optimizer = rule}), 3, given).back(), wanted.back()))
        << name_of(rule);
  }
}

TEST(GroupRates, StagesKeepBits) {
  const auto given = [](int step) {
    return StepRates{.lr = 1e-2, .by_group = {1e-2 * step, 1e-2 / (1 + step)}, .decay_by_group = {0.2 * step, 0}};
  };
  std::vector<Values> wanted;
  for (const AttachOptions& options : tests::all_stages(grouped({}))) {
    const std::vector<Values> seen = train(options, 3, given);
    if (wanted.empty()) wanted = seen;
    EXPECT_TRUE(tests::same_bits(seen.back(), wanted.back())) << "stage " << options.stage;
  }
}

TEST(GroupRates, ZeroRateStopsOneGroup) {
  std::vector<std::shared_ptr<tests::TiedNet>> nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    tests::TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, grouped({.stage = 3}));
    for (const bool biases : {true, false}) {
      const auto values = [&] { return Values{engine.full_state("blocks.0.up.bias"), engine.full_state("scale")}; };
      const Values before = values();
      tests::loss_of(net, 0, 0, ranks.rank()).backward();
      engine.step({.lr = 1, .by_group = {biases ? 1e-2 : 0, biases ? 0 : 1e-2}});
      const Values after = values();
      EXPECT_EQ(tests::same_bits(after[0], before[0]), !biases);
      EXPECT_EQ(tests::same_bits(after[1], before[1]), biases);
    }
  });
}

// The gradient of the first step is applied during the second step, with the rates of the first.
TEST(GroupRates, DelayedUpdateKeepsItsRates) {
  const auto given = [](int step) {
    const double lr = step == 0 ? 1e-2 : 0;
    return StepRates{.lr = 1, .by_group = {lr, 2 * lr}, .decay_by_group = {lr, lr}};
  };
  const auto wanted = train(grouped({.stage = 3, .optimizer = Sgd{}}), 2, given);
  const auto late = train(grouped({.stage = 3, .optimizer = Sgd{}, .delayed_update = true}), 2, given);
  EXPECT_TRUE(tests::same_bits(late.back(), wanted.back()));
}

TEST(GroupRates, BadRatesAreRefused) {
  std::vector<std::shared_ptr<tests::TiedNet>> nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    tests::TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, grouped({.stage = 3}));
    tests::loss_of(net, 0, 0, ranks.rank()).backward();
    const auto refusal = [&](const StepRates& rates) { return message_of<ConfigError>([&] { engine.step(rates); }); };
    EXPECT_TRUE(says(refusal({.lr = 1, .by_group = {1, kNan}}), "step(rates.by_group[1]) = nan"));
    EXPECT_TRUE(says(refusal({.lr = 1, .by_group = {-1, 1}}), "step(rates.by_group[0]) = -1"));
    EXPECT_TRUE(says(refusal({.lr = 1, .decay_by_group = {0, -1}}), "step(rates.decay_by_group[1]) = -1"));
    EXPECT_TRUE(says(refusal({.lr = 1, .by_group = {1}}), "1 numbers: the options have 2 groups"));
    EXPECT_TRUE(says(refusal({.lr = kNan, .by_group = {1, 1}}), "step(lr) = nan"));
    const double own = ranks.rank() == 0 ? 0.1 : 0.2;
    EXPECT_TRUE(says(refusal({.lr = 1, .by_group = {1, own}}), "step = rank 1: its learning rates or weight decays"));
  });
}

TEST(GroupRates, WorkersOfServersRefuseThem) {
  std::vector<std::shared_ptr<tests::TiedNet>> nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    tests::TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, grouped({.sync = {.servers = 1}}));
    if (ranks.rank() == 0) return engine.serve();
    tests::loss_of(net, 0, 0, 0).backward();
    const std::string message = message_of<ConfigError>([&] { engine.step({.lr = 1, .by_group = {1, 2}}); });
    EXPECT_TRUE(says(message, "step = by_group: a worker sends servers one learning rate")) << message;
    engine.step(1e-2);
  });
}

}  // namespace
}  // namespace zero
