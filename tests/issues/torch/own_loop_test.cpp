// A user's own loop around backward() and step(). clip_grad_norm_() and other optimizers found no gradients in .grad()
// and did nothing, without a message. Micro-batches were summed although a user expected their mean.
#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::RunResult;
using tests::TiedNet;

struct Mistake {
  const char* name;
  std::function<void(TiedNet&)> make;
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all{
      {"clip_grad_norm_", [](TiedNet& net) { torch::nn::utils::clip_grad_norm_(net.parameters(), 0.1); }},
      {"clip_grad_value_", [](TiedNet& net) { torch::nn::utils::clip_grad_value_(net.parameters(), 0.1); }},
      {"SGD", [](TiedNet& net) { torch::optim::SGD(net.parameters(), 0.1).step(); }},
      {"AdamW", [](TiedNet& net) { torch::optim::AdamW(net.parameters()).step(); }},
      {"a look", [](TiedNet& net) { EXPECT_FALSE(net.scale.grad().defined()); }},
  };
  return all;
}

TEST(OwnLoop, ReadingGradIsReportedNextStep) {
  for (const AttachOptions& options : tests::all_stages({})) {
    for (const Mistake& mistake : mistakes()) {
      SCOPED_TRACE(tests::placement_of(options) + ", " + mistake.name);
      auto nets = tests::tied_nets(2);
      tests::on_every_rank(2, [&](World& ranks) {
        TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
        Engine engine = attach(net, ranks, options);
        loss_of(net, 0, 0, ranks.rank()).backward();
        mistake.make(net);
        const std::string message = message_of<ConfigError>([&] { engine.step(); });
        EXPECT_TRUE(says(message, "scale"));
        EXPECT_TRUE(says(message, "clip_grad_norm_()"));
        EXPECT_EQ(engine.step().step, 1) << "the step itself is not lost";
        EXPECT_FALSE(net.scale.mutable_grad().defined());
      });
    }
  }
}

// A schedule that follows each rank's own loss gives the ranks different rates.
TEST(OwnLoop, RefusesLearningRatesThatDiffer) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.stage = 3});
    loss_of(net, 0, 0, ranks.rank()).backward();
    for (const double none : {-1.0, std::nan("")})
      EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(none); }), "a finite number, 0 or more"));
    const std::string message = message_of<ConfigError>([&] { engine.step(ranks.rank() == 0 ? 0.1 : 0.2); });
    EXPECT_TRUE(says(message, "rank 1: its learning rate is 0.2, and rank 0's is 0.1")) << message;
  });
}

TEST(OwnLoop, MissingStepIsReportedAtExit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto loop_without_a_step = [] {
    ::setenv("ZERO_LOG_LEVEL", "warn", 1);
    TiedNet net;
    tests::on_every_rank(1, [&](World& ranks) {
      const Engine engine = attach(net, ranks, {.stage = 3});
      loss_of(net, 0, 0, 0).backward();
      torch::optim::SGD(net.parameters(), 0.1).step();
    });
    std::exit(0);
  };
  EXPECT_EXIT(loop_without_a_step(), testing::ExitedWithCode(0),
              "the .grad\\(\\) of scale was read since the last step");
}

TEST(OwnLoop, OptimizerMayZeroGradients) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    torch::optim::SGD other(net.parameters(), 0.1);
    for (int attachment = 0; attachment < 2; ++attachment) {
      Engine engine = attach(net, ranks, {.stage = 3});
      for (int step = 0; step < 2; ++step) {
        net.zero_grad();
        other.zero_grad();
        loss_of(net, step, 0, ranks.rank()).backward();
        EXPECT_EQ(engine.step().step, step + 1);
      }
    }
  });
}

// Gathers that a step begins end with the next forward pass. A mean over ranks of each of 60 values failed before it.
TEST(OwnLoop, ManyExchangesMayFollowAStep) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.stage = 1});
    for (int step = 0; step < 2; ++step) {
      loss_of(net, step, 0, ranks.rank()).backward();
      EXPECT_EQ(engine.step().step, step + 1);
      for (int i = 0; i < 100; ++i) ranks.communicator().barrier({}).wait();
    }
  });
}

// An engine that gave no values back waited for peers until the timeout, and the world could not be used again.
TEST(OwnLoop, AbandonedEngineLeavesTheWorldUsable) {
  tests::on_every_rank(2, [&](World& ranks) {
    for (const int stage : {1, 2, 3}) {
      torch::nn::Linear net(64, 64);
      Engine engine = attach(*net, ranks, {.stage = stage});
      net->forward(torch::ones({2, 64})).sum().backward();
      EXPECT_EQ(engine.step().step, 1);
      engine.abandon();
      engine.detach();
      for (int i = 0; i < 100; ++i) ranks.communicator().barrier({}).wait();
    }
  });
}

// Copies that train apart export the weights that they share. A file that could not be written left these in place.
TEST(OwnLoop, FailedExportLeavesOwnWeights) {
  tests::on_every_rank(2, [&](World& ranks) {
    torch::nn::Linear net(8, 8);
    Engine engine = attach(*net, ranks, {.local = LocalSteps{.steps = 4}});
    const auto step = [&] {
      net->forward(torch::ones({2, 8}) * (ranks.rank() + 1)).square().sum().backward();
      return engine.step().step;
    };
    EXPECT_EQ(step(), 1);
    EXPECT_THROW(engine.export_weights("/nowhere/at/all/weights.safetensors"), IoError);
    EXPECT_EQ(step(), 2);
  });
}

// Gradients that somebody else put into .grad().
TEST(OwnLoop, RefusesForeignGradients) {
  TiedNet net;
  net.block(0).up->weight.set_requires_grad(false);
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, {.stage = 3});
    net.block(0).up->weight.set_requires_grad(true);  // too late: nothing takes its gradient
    loss_of(net, 0, 0, 0).backward();
    const std::string message = message_of<ConfigError>([&] { engine.step(); });
    EXPECT_TRUE(says(message, "blocks.0.up.weight"));
    EXPECT_TRUE(says(message, "requires_grad before attach()"));
    net.zero_grad();
    net.scale.mutable_grad() = torch::ones({});
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(); }), "scale"));
    net.zero_grad();
    net.block(0).up->weight.set_requires_grad(false);
    loss_of(net, 0, 0, 0).backward();
    EXPECT_EQ(engine.step().step, 1);
  });
}

TEST(OwnLoop, HooksAndNamesOutliveIt) {
  TiedNet net;
  int calls = 0;
  net.scale.register_hook([&calls](const torch::Tensor& gradient) {
    ++calls;
    return gradient * 2;
  });
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, {.stage = 3});
    EXPECT_TRUE(net.scale.is_leaf() && net.scale.requires_grad());
    loss_of(net, 0, 0, 0).backward();
    engine.step();
  });
  EXPECT_EQ(calls, 1);
  loss_of(net, 1, 0, 0).backward();
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(net.scale.grad().defined());
}

// ---- micro-batches

tests::MakeSubject scaled_by(double factor) {
  return [factor] {
    auto net = std::make_shared<TiedNet>();
    return tests::Subject{
        net, [net, factor](int step, int micro, int rank) { return loss_of(*net, step, micro, rank) * factor; }};
  };
}

// The user divides each loss by the number of micro-batches in one run, and the engine averages them in the other. The
// bits are equal.
TEST(MicroBatches, AveragedMatchDividedLosses) {
  struct Case {
    int world, accumulate;
    DType dtype;
    Reduce reduce;
  };
  for (const Case& each : {Case{3, 4, DType::kFloat32, Reduce::kEach}, Case{2, 2, DType::kBFloat16, Reduce::kLast}}) {
    AttachOptions options{.clip = 0.5, .reduce = each.reduce, .accumulate = each.accumulate, .dtype = each.dtype};
    const RunResult divided = tests::train(each.world, 2, options, scaled_by(1));
    options.average_micro_batches = true;
    for (const AttachOptions& stage : tests::all_stages(options)) {
      const RunResult averaged = tests::train(each.world, 2, stage, scaled_by(each.accumulate));
      EXPECT_EQ(averaged.grad_norms, divided.grad_norms) << tests::placement_of(stage);
      EXPECT_TRUE(tests::same_bits(averaged.parameters, divided.parameters)) << tests::placement_of(stage);
    }
  }
}

TEST(MicroBatches, AreSummedUnlessAskedFor) {
  AttachOptions options{.accumulate = 4};
  const double divided = tests::train(1, 1, options, scaled_by(1)).grad_norms[0];
  EXPECT_EQ(tests::train(1, 1, options, scaled_by(4)).grad_norms[0], 4 * divided);
}

TEST(MicroBatches, AverageCountsTheStepsOwn) {
  TiedNet net;
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, {.average_micro_batches = true});
    loss_of(net, 0, 0, 0).backward();
    const double once = engine.step(0).grad_norm;
    for (int micro = 0; micro < 2; ++micro) loss_of(net, 0, 0, 0).backward();
    EXPECT_EQ(engine.step(0).grad_norm, once);
  });
}

TEST(MicroBatches, LimitsAreThoseOfTheAverage) {
  TiedNet net;
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, {.average_micro_batches = true});
    for (int micro = 0; micro < 2; ++micro) loss_of(net, 0, 0, 0).backward();
    const StepReport report = engine.step(0, {.max_grad_norm = 1e-9});
    EXPECT_EQ(report.reason, SkipReason::kNormSpike);
    loss_of(net, 0, 0, 0).backward();
    EXPECT_FALSE(engine.step(0, {.max_grad_norm = report.grad_norm * 1.001}).skipped);
  });
}

}  // namespace
}  // namespace zero
