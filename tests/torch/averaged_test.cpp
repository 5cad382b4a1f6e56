// Moving averages of the weights: equal at every stage and on every tier, and swapped in for the time of a scope.
#include <gtest/gtest.h>

#include "zero/checkpoint/read/checkpoint_reader.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/subjects.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

using Values = std::vector<torch::Tensor>;

struct Seen {
  Values before, averages, after;
  double loss = 0;  // inside the scope
};

// Trains three steps. Returns the weights before, inside and after averaged(), in full precision.
Seen train(int world, const AttachOptions& options) {
  Seen seen;
  std::vector<std::shared_ptr<tests::TiedNet>> nets = tests::tied_nets(world);
  tests::on_every_rank(world, [&](World& ranks) {
    tests::TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, options);
    const auto step = [&](int number) {
      loss_of(net, number, 0, ranks.rank()).backward();
      engine.step(1e-2);
    };
    const auto weights = [&] {
      Values values;
      engine.for_each_parameter(
          [&](const std::string&, const torch::Tensor& value) { values.push_back(value.clone()); },
          /*full_precision=*/true);
      return values;
    };
    for (int number = 0; number < 3; ++number) step(number);
    Values before = weights(), averages;
    double loss = 0;
    {
      const auto scope = engine.averaged();
      averages = weights();
      const torch::NoGradGuard no_grad;
      loss = loss_of(net, 7, 0, 0).item<double>();
    }
    step(3);
    Values after = weights();
    if (ranks.rank() == 0) seen = {std::move(before), std::move(averages), std::move(after), loss};
  });
  return seen;
}

AttachOptions with_average(std::optional<DType> dtype = std::nullopt) {
  return {.optimizer = AdamW{.weight_decay = 0.1}, .ema = 0.9, .dtype = dtype};
}

TEST(Averaged, StagesAndTiersKeepBits) {
  const TemporaryFolder disk;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int world : {1, 2}) {
      std::vector<AttachOptions> placements = tests::all_stages(with_average(dtype));
      placements.push_back(placements.back());
      placements.back().offload.disk = {disk.path().string()};
      placements.back().offload.fractions = {
          .parameter = {.disk = 1}, .gradient = {.host = 1}, .optimizer = {.disk = 0.6}};
      const Seen expected = train(world, placements.front());
      for (const AttachOptions& placed : placements) {
        const Seen seen = train(world, placed);
        EXPECT_TRUE(tests::same_bits(seen.averages, expected.averages)) << tests::placement_of(placed);
        EXPECT_TRUE(tests::same_bits(seen.after, expected.after)) << tests::placement_of(placed);
        EXPECT_EQ(seen.loss, expected.loss) << tests::placement_of(placed);
      }
    }
  }
}

TEST(Averaged, ChangesNoBitOfTraining) {
  AttachOptions without = with_average();
  without.ema = 0;
  const tests::RunResult plain = tests::train(2, 4, without, tests::tied_net);
  EXPECT_TRUE(tests::same_bits(train(2, with_average()).after, plain.parameters));
}

TEST(Averaged, LagsBehindTheWeights) {
  const Seen seen = train(1, with_average());
  ASSERT_EQ(seen.averages.size(), seen.before.size());
  for (std::size_t i = 0; i < seen.before.size(); ++i)
    EXPECT_FALSE(tests::same_bits(seen.averages[i], seen.before[i])) << i;
}

// Two parameters in one unit. The second has no gradient in the first step.
struct Halves : torch::nn::Module {
  torch::Tensor first = register_parameter("first", torch::full({3, 2}, 2.0));
  torch::Tensor second = register_parameter("second", torch::full({5}, 3.0));
};

TEST(Averaged, IsTheWeightBeforeAnUpdate) {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    std::vector<AttachOptions> placements = tests::all_stages(with_average(dtype));
    for (std::size_t whole = placements.size(); whole > 0; --whole) {
      AttachOptions on_disk = placements[whole - 1];
      if (on_disk.stage < 1) continue;
      on_disk.offload.disk = {folder.path().string()};
      on_disk.offload.fractions = {.optimizer = {.disk = 1}};
      placements.push_back(on_disk);
    }
    for (const AttachOptions& options : placements) {
      SCOPED_TRACE(tests::placement_of(options));
      std::vector<Halves> halves(2);
      tests::on_every_rank(2, [&](World& ranks) {
        Halves& module = halves[static_cast<std::size_t>(ranks.rank())];
        Engine engine = attach(module, ranks, options);
        const auto expect_weight = [&](const char* name) {
          EXPECT_TRUE(tests::same_bits(engine.full_state(name, "ema"), engine.full_state(name)));
          EXPECT_TRUE(tests::same_bits(engine.state_shard(name, "ema").values, engine.state_shard(name).values));
        };
        expect_weight("first");
        expect_weight("second");
        EXPECT_EQ(engine.full_state("second", "exp_avg").abs().max().item<double>(), 0);
        engine.save(folder.path() / "checkpoint");
        CheckpointReader reader(folder.path() / "checkpoint");
        std::vector<float> saved(6);
        reader.read(reader.find("first"), 3, 0, saved);
        EXPECT_EQ(saved, std::vector<float>(6, 2.0F)) << "the checkpoint also has them";
        (module.first * torch::arange(6).reshape({3, 2})).sum().backward();
        engine.step(0.25);
        expect_weight("second");
        EXPECT_FALSE(tests::same_bits(engine.full_state("first", "ema"), engine.full_state("first")));
        {
          const auto scope = engine.averaged();
          EXPECT_EQ(module.second.sum().item<double>(), 15);
        }
        engine.load(folder.path() / "checkpoint");
        expect_weight("first");
      });
    }
  }
}

TEST(Averaged, AnExceptionEndsItLater) {
  for (const AttachOptions& options : tests::all_stages(with_average())) {
    SCOPED_TRACE(tests::placement_of(options));
    auto nets = tests::tied_nets(2);
    tests::on_every_rank(2, [&](World& ranks) {
      tests::TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
      Engine engine = attach(net, ranks, options);
      loss_of(net, 0, 0, ranks.rank()).backward();
      engine.step(1e-2);
      const torch::Tensor weight = engine.full_state("scale");
      const auto leave = [&] {
        const auto scope = engine.averaged();
        throw std::runtime_error("no such file");
      };
      EXPECT_THROW(leave(), std::runtime_error);
      EXPECT_TRUE(tests::same_bits((net.scale * 1).detach(), weight));
      EXPECT_TRUE(tests::same_bits(engine.full_state("scale"), weight));
      loss_of(net, 1, 0, ranks.rank()).backward();
      EXPECT_NO_THROW(engine.step(1e-2));
    });
  }
}

TEST(Averaged, RefusesUsesOfOwnWeightsMeanwhile) {
  const TemporaryFolder folder;
  tests::on_every_rank(1, [&](World& ranks) {
    tests::TiedNet net;
    Engine engine = attach(net, ranks, with_average());
    loss_of(net, 0, 0, 0).backward();
    engine.step();
    EXPECT_EQ(engine.state_names(), (std::vector<std::string>{"parameter", "exp_avg", "exp_avg_sq", "ema"}));
    const auto scope = engine.averaged();
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(); }), "averaged() scope"));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.save(folder.path() / "checkpoint"); }), "averaged() scope"));
  });
  tests::on_every_rank(1, [&](World& ranks) {
    tests::TiedNet net;
    Engine engine = attach(net, ranks, {});
    EXPECT_TRUE(
        says(message_of<ConfigError>([&] { const auto scope = engine.averaged(); }), "no average of the weights"));
    engine.detach();
    AttachOptions late{.stage = 3, .delayed_update = true, .ema = 0.9};
    EXPECT_TRUE(says(message_of<ConfigError>([&] { attach(net, ranks, late); }), "zero.delayed_update"));
  });
}

}  // namespace
}  // namespace zero
