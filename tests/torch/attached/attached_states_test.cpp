// Reads of gradients, parameters and moments by name.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/torch/engine_control.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::TiedNet;

const AttachOptions kClipped{.optimizer = AdamW{.lr = 1e-2, .weight_decay = 0.1}, .clip = 0.5};

void attached(int world, const AttachOptions& options, const std::function<void(TiedNet&, Engine&, int)>& body) {
  auto nets = tests::tied_nets(world);
  tests::on_every_rank(world, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, options);
    body(net, engine, ranks.rank());
  });
}

using Named = std::map<std::string, torch::Tensor>;

Named gradients_of(Engine& engine) {
  Named gradients;
  for (const ParamSpec& spec : engine.parameters()) gradients[spec.name] = engine.gradient(spec.name);
  return gradients;
}

void expect_same(const Named& a, const Named& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) EXPECT_TRUE(tests::same_bits(value, b.at(name))) << name;
}

TEST(Gradient, MatchesPlainAutograd) {
  auto plain = tests::tied_nets(1)[0];
  loss_of(*plain, 0, 0, 0).backward();
  for (const AttachOptions& options : tests::all_stages(kClipped)) {
    attached(1, options, [&](TiedNet& net, Engine& engine, int) {
      loss_of(net, 0, 0, 0).backward();
      for (const auto& item : plain->named_parameters())
        EXPECT_TRUE(tests::same_bits(engine.gradient(item.key()), item.value().grad())) << item.key();
    });
  }
}

TEST(Gradient, AverageKeepsBitsAtEveryStage) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int accumulate : {1, 2}) {
      AttachOptions options = kClipped;
      options.dtype = dtype;
      options.accumulate = accumulate;
      options.average_micro_batches = true;
      Named first;
      for (const AttachOptions& placed : tests::all_stages(options)) {
        SCOPED_TRACE(tests::placement_of(placed) + ", accumulate " + std::to_string(accumulate));
        attached(2, placed, [&](TiedNet& net, Engine& engine, int rank) {
          for (int micro = 0; micro < accumulate; ++micro) loss_of(net, 0, micro, rank).backward();
          const Named gradients = gradients_of(engine);
          double sum_squares = 0;
          for (const auto& [name, norm] : engine.grad_norms()) {
            EXPECT_NEAR(norm, gradients.at(name).to(torch::kDouble).norm().item<double>(), 1e-6) << name;
            sum_squares += norm * norm;
          }
          EXPECT_NEAR(std::sqrt(sum_squares), engine.step().grad_norm, 1e-6);
          if (rank != 0) return;
          if (first.empty()) first = gradients;
          expect_same(gradients, first);
        });
      }
    }
  }
}

TEST(Gradient, ReadingItChangesNoStep) {
  for (const AttachOptions& options : tests::all_stages(kClipped)) {
    std::vector<Named> weights(2);
    for (const bool reads : {false, true}) {
      attached(2, options, [&](TiedNet& net, Engine& engine, int rank) {
        for (int step = 0; step < 3; ++step) {
          loss_of(net, step, 0, rank).backward();
          if (reads) gradients_of(engine);
          if (reads) engine.grad_norms();
          engine.step();
        }
        if (rank != 0) return engine.for_each_parameter([](const std::string&, const torch::Tensor&) {});
        engine.for_each_parameter(
            [&](const std::string& name, const torch::Tensor& value) { weights[reads][name] = value.clone(); });
      });
    }
    SCOPED_TRACE(tests::placement_of(options));
    expect_same(weights[0], weights[1]);
  }
}

TEST(Visits, SomeAtATimeAreAll) {
  attached(2, kClipped, [&](TiedNet&, Engine& engine, int) {
    std::vector<std::pair<std::string, torch::Tensor>> whole, parts;
    engine.for_each_parameter(
        [&](const std::string& name, const torch::Tensor& value) { whole.emplace_back(name, value.clone()); });
    std::size_t calls = 0, next = 0;
    do {
      const std::size_t before = parts.size();
      next = engine.control().visit_some(
          next, [&](const std::string& name, const torch::Tensor& value) { parts.emplace_back(name, value.clone()); },
          /*full_precision=*/false);
      EXPECT_GT(parts.size(), before);
      ++calls;
    } while (next != 0);
    EXPECT_GT(calls, 1U);
    ASSERT_EQ(parts.size(), whole.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(parts[i].first, whole[i].first);
      EXPECT_TRUE(tests::same_bits(parts[i].second, whole[i].second)) << parts[i].first;
    }
  });
}

// The gradient is on the host.
TEST(Gradient, CanBeReadFromLowerTiers) {
  const Named expected = [] {
    Named gradients;
    attached(1, kClipped, [&](TiedNet& net, Engine& engine, int) {
      loss_of(net, 0, 0, 0).backward();
      gradients = gradients_of(engine);
    });
    return gradients;
  }();
  AttachOptions options = kClipped;
  options.offload.fractions.gradient = {.host = 1};
  attached(1, options, [&](TiedNet& net, Engine& engine, int) {
    loss_of(net, 0, 0, 0).backward();
    expect_same(gradients_of(engine), expected);
    engine.step();
  });
}

TEST(Gradient, RefusesPartialGradient) {
  AttachOptions options = kClipped;
  options.accumulate = 2;
  attached(1, options, [](TiedNet& net, Engine& engine, int) {
    const auto refusal = [&] { return message_of<ConfigError>([&] { engine.gradient("scale"); }); };
    EXPECT_TRUE(says(refusal(), "after 0 of 2 backward passes"));
    loss_of(net, 0, 0, 0).backward();
    EXPECT_TRUE(says(refusal(), "after 1 of 2 backward passes"));
    loss_of(net, 0, 1, 0).backward();
    EXPECT_NO_THROW(engine.gradient("scale"));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.gradient("scala"); }), "scala"));
    engine.step();
    EXPECT_TRUE(says(refusal(), "after 0 of 2 backward passes"));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.grad_norms(); }), "step()"));
  });
}

// ---- reduce_dtype

// The mean of two ranks' gradients in bf16, by plain autograd.
Named plain_mean(bool rounded) {
  Named mean;
  for (int rank = 0; rank < 2; ++rank) {
    auto net = tests::tied_nets(1)[0];
    net->to(torch::kBFloat16);
    loss_of(*net, 0, 0, rank).backward();
    for (const auto& item : net->named_parameters()) {
      const torch::Tensor gradient = item.value().grad().to(torch::kFloat32);
      mean[item.key()] = rank == 0 ? gradient : mean[item.key()] + gradient;
    }
  }
  for (auto& [name, sum] : mean) sum = (rounded ? sum.to(torch::kBFloat16).to(torch::kFloat32) : sum) * 0.5;
  return mean;
}

TEST(ReduceDtype, Fp32SumOfBf16IsUnrounded) {
  for (const bool fp32 : {false, true}) {
    const Named expected = plain_mean(/*rounded=*/!fp32);
    AttachOptions options = kClipped;
    options.dtype = DType::kBFloat16;
    if (fp32) options.reduce_dtype = DType::kFloat32;
    for (const AttachOptions& placed : tests::all_stages(options)) {
      SCOPED_TRACE(tests::placement_of(placed) + (fp32 ? ", sums in fp32" : ""));
      attached(2, placed, [&](TiedNet& net, Engine& engine, int rank) {
        loss_of(net, 0, 0, rank).backward();
        expect_same(gradients_of(engine), expected);
        engine.step();
      });
    }
  }
}

TEST(ReduceDtype, StagesKeepBitsAndPlannedBytes) {
  for (const int accumulate : {1, 2}) {
    AttachOptions options = kClipped;
    options.accumulate = accumulate;
    options.dtype = DType::kBFloat16;
    const tests::RunResult rounded = tests::train(2, 4, options, tests::tied_net);
    options.reduce_dtype = DType::kFloat32;
    std::vector<AttachOptions> all = tests::all_stages(options);
    options.stage = 3;
    options.offload.fractions.gradient = {.host = 1};
    all.push_back(options);
    const tests::RunResult first = tests::train(2, 4, all.front(), tests::tied_net);
    EXPECT_FALSE(tests::same_bits(first.parameters, rounded.parameters));
    for (const AttachOptions& placed : all) {
      SCOPED_TRACE(tests::placement_of(placed) + ", accumulate " + std::to_string(accumulate));
      const tests::RunResult run = tests::train(2, 4, placed, tests::tied_net);
      EXPECT_EQ(run.grad_norms, first.grad_norms);
      EXPECT_TRUE(tests::same_bits(run.parameters, first.parameters));
      for (const EngineReport& report : run.reports) EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes);
    }
  }
}

TEST(ReduceDtype, ChangesNothingOfFp32Gradients) {
  AttachOptions options = kClipped;
  const tests::RunResult without = tests::train(2, 3, options, tests::tied_net);
  options.reduce_dtype = DType::kFloat32;
  for (const AttachOptions& placed : tests::all_stages(options))
    EXPECT_TRUE(tests::same_bits(tests::train(2, 3, placed, tests::tied_net).parameters, without.parameters));
}

TEST(ReduceDtype, IsFp32OrNothing) {
  TiedNet net;
  tests::on_every_rank(1, [&](World& ranks) {
    const auto refusal = [&](const AttachOptions& options) {
      return message_of<ConfigError>([&] { attach(net, ranks, options); });
    };
    EXPECT_TRUE(says(refusal({.reduce_dtype = DType::kBFloat16}), "reduce_dtype"));
    EXPECT_TRUE(says(refusal({.reduce = Reduce::kLast, .accumulate = 2, .reduce_dtype = DType::kFloat32}), "last"));
  });
}

// ---- states

TEST(State, ShardsOfAllRanksMakeWhole) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    AttachOptions options = kClipped;
    options.dtype = dtype;
    for (const AttachOptions& placed : tests::all_stages(options)) {
      SCOPED_TRACE(tests::placement_of(placed));
      std::vector<std::map<std::string, StateShard>> shards(3);
      Named whole;
      attached(3, placed, [&](TiedNet& net, Engine& engine, int rank) {
        loss_of(net, 0, 0, rank).backward();
        engine.step();
        EXPECT_EQ(engine.state_names(), (std::vector<std::string>{"parameter", "exp_avg", "exp_avg_sq"}));
        for (const std::string& state : engine.state_names()) {
          for (const ParamSpec& spec : engine.parameters()) {
            const std::string key = spec.name + "/" + state;
            shards[static_cast<std::size_t>(rank)][key] = engine.state_shard(spec.name, state);
            const torch::Tensor full = engine.full_state(spec.name, state);
            EXPECT_EQ(full.sizes().vec(), spec.shape);
            if (rank == 0) whole[key] = full;
          }
        }
        loss_of(net, 1, 0, rank).backward();
        EXPECT_EQ(engine.step().step, 2) << "training goes on";
      });
      for (const auto& [key, full] : whole) {
        std::int64_t next = 0;
        for (const auto& of_rank : shards) {
          const StateShard& shard = of_rank.at(key);
          if (shard.values.numel() == 0) continue;
          EXPECT_EQ(shard.offset, next) << key;
          next += shard.values.numel();
          EXPECT_TRUE(tests::same_bits(shard.values, full.reshape({-1}).narrow(0, shard.offset, shard.values.numel())));
        }
        EXPECT_EQ(next, full.numel()) << key;
      }
    }
  }
}

// States are read while they are on the disk, and the end of the engine gives the parameters back.
TEST(State, OffloadedStatesAreReadAndReturned) {
  const TemporaryFolder folder;
  AttachOptions options = kClipped;
  options.offload.disk = {folder.path().string()};
  std::vector<Named> moments(2), weights(2);
  for (const std::size_t moves : {0U, 1U}) {
    auto nets = tests::tied_nets(2);
    tests::on_every_rank(2, [&](World& ranks) {
      TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
      {
        Engine engine = attach(net, ranks, options);
        loss_of(net, 0, 0, ranks.rank()).backward();
        engine.step();
        const std::int64_t moved = moves == 0 ? 1 : engine.offload_states();
        EXPECT_GT(moved, 0);
        for (const ParamSpec& spec : engine.parameters()) {
          const torch::Tensor full = engine.full_state(spec.name, "exp_avg");
          if (ranks.rank() == 0) moments[moves][spec.name] = full;
        }
      }
      if (ranks.rank() > 0) return;
      for (const auto& item : net.named_parameters()) weights[moves][item.key()] = item.value().detach().clone();
    });
  }
  expect_same(moments[0], moments[1]);
  expect_same(weights[0], weights[1]);
}

TEST(State, TiedParameterHasAllItsNames) {
  torch::nn::Linear one(torch::nn::LinearOptions(4, 4).bias(false));
  torch::nn::Sequential model(one, torch::nn::ReLU(), one);
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(*model, ranks, {.stage = 3});
    EXPECT_TRUE(tests::same_bits(engine.full_state("0.weight"), engine.full_state("2.weight")));
  });
}

TEST(State, MissingStateIsRefusedByName) {
  attached(1, kClipped, [](TiedNet& net, Engine& engine, int) {
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.full_state("scale", "momentum_buffer"); }), "exp_avg_sq"));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.state_shard("scala"); }), "scala"));
    loss_of(net, 0, 0, 0).backward();
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.full_state("scale"); }), "between a backward pass"));
  });
  TiedNet net;
  net.scale.set_requires_grad(false);
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, kClipped);
    EXPECT_TRUE(torch::equal(engine.full_state("scale"), torch::ones({})));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.full_state("scale", "exp_avg"); }), "scale is frozen"));
    loss_of(net, 0, 0, 0).backward();
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.gradient("scale"); }), "frozen"));
  });
}

}  // namespace
}  // namespace zero
