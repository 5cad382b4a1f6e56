// Gradients that zero_grad() should drop, or that a failed backward pass had left, went into the next step. After a
// step() that was refused for its number of micro-batches, every later step() was also refused.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::TiedNet;
using tests::Values;

// One weight with the initial value 1. Its gradient is the factor of its loss.
struct Weight : torch::nn::Module {
  torch::Tensor value = register_parameter("value", torch::ones({1}));
  torch::Tensor loss(double factor) { return (value * factor).sum().to(torch::kFloat); }
};

// Stages, tiers, types and accumulations that must have the bits of a run without dropped gradients.
std::vector<AttachOptions> dropping_placements(const std::string& disk) {
  std::vector<AttachOptions> all;
  for (const int accumulate : {1, 2}) {
    for (const AttachOptions& options : tests::all_stages({.accumulate = accumulate})) {
      all.push_back(options);
      AttachOptions other = options;
      if (accumulate > 1) {
        other.reduce = options.stage < 2 ? Reduce::kLast : Reduce::kEach;
        all.push_back(other);
      }
      other.dtype = DType::kBFloat16;
      all.push_back(other);
      other.dtype = DType::kFloat16;
      other.loss_scale = LossScaleOptions{.value = 64};
      if (options.stage > 1) other.offload.fractions.gradient = {.host = 1};
      all.push_back(other);
      if (options.stage < 2) continue;
      other = options;
      other.offload.fractions.gradient = {.disk = 1};
      other.offload.disk = {disk};
      all.push_back(other);
    }
  }
  return all;
}

std::string case_of(const AttachOptions& options) {
  return tests::placement_of(options) + ", accumulate " + std::to_string(options.accumulate) +
         (options.dtype ? ", 16 bits" : "") + (options.offload.fractions.gradient.disk > 0 ? ", disk" : "");
}

TEST(DiscardedGradients, ZeroGradDropsPendingOnes) {
  for (const AttachOptions& stage : tests::all_stages({.optimizer = Sgd{.lr = 1}})) {
    SCOPED_TRACE(tests::placement_of(stage));
    tests::on_every_rank(2, [&](World& ranks) {
      Weight weight;
      Engine engine = attach(weight, ranks, stage);
      weight.loss(100).backward();
      weight.zero_grad();
      weight.loss(2).backward();
      EXPECT_EQ(engine.step().grad_norm, 2);
      EXPECT_EQ(engine.full_state("value").item<double>(), -1);
    });
  }
}

// Weights and norms of four steps. Before the passes of a step, `spoil` may leave gradients and drop them again.
struct Outcome {
  std::vector<double> norms;
  Values weights;
};
using Spoil = std::function<void(TiedNet&, Engine&, int step, int rank)>;

Outcome outcome_of(const AttachOptions& options, const Spoil& spoil) {
  Outcome outcome;
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, options);
    std::vector<double> norms;
    for (int step = 0; step < 4; ++step) {
      spoil(net, engine, step, ranks.rank());
      for (int micro = 0; micro < options.accumulate; ++micro)
        engine.scaled(loss_of(net, step, micro, ranks.rank())).backward();
      norms.push_back(engine.step(1e-2).grad_norm);
    }
    Values weights = tests::weights_of(engine);
    if (ranks.rank() == 0) outcome = {std::move(norms), std::move(weights)};
  });
  return outcome;
}

void expect_no_trace(const std::vector<AttachOptions>& all, const Spoil& spoil) {
  for (const AttachOptions& options : all) {
    SCOPED_TRACE(case_of(options));
    const Outcome clean = outcome_of(options, [](TiedNet&, Engine&, int, int) {});
    const Outcome spoilt = outcome_of(options, spoil);
    EXPECT_EQ(spoilt.norms, clean.norms);
    EXPECT_TRUE(tests::same_bits(spoilt.weights, clean.weights));
  }
}

void leave_gradients(TiedNet& net, Engine& engine, int step, int rank) {
  engine.scaled(loss_of(net, step + 7, 3, rank) * 50).backward();
}

TEST(DiscardedGradients, ZeroGradLeavesNoTrace) {
  const TemporaryFolder disk;
  expect_no_trace(dropping_placements(disk.path().string()), [](TiedNet& net, Engine& engine, int step, int rank) {
    leave_gradients(net, engine, step, rank);
    net.zero_grad();
  });
}

TEST(DiscardedGradients, OptimizersZeroGradLeavesNoTrace) {
  expect_no_trace(tests::all_stages({}), [](TiedNet& net, Engine& engine, int step, int rank) {
    leave_gradients(net, engine, step, rank);
    torch::optim::SGD(net.parameters(), 0.1).zero_grad(/*set_to_none=*/step % 2 == 0);
  });
}

TEST(DiscardedGradients, DiscardLeavesNoTrace) {
  expect_no_trace(tests::all_stages({.accumulate = 2}), [](TiedNet& net, Engine& engine, int step, int rank) {
    if (step == 2) return;  // no gradients are pending then
    leave_gradients(net, engine, step, rank);
    engine.discard_gradients();
    engine.discard_gradients();
  });
}

TEST(DiscardedGradients, UpdatesThatWaitAreAppliedFirst) {
  AttachOptions options{.delayed_update = true, .exact_steps = 1};
  options.offload.fractions = {.gradient = {.host = 1}, .optimizer = {.host = 1}};
  for (options.stage = 2; options.stage < 4; ++options.stage) {
    SCOPED_TRACE(tests::placement_of(options));
    const Outcome clean =
        outcome_of(options, [](TiedNet&, Engine& engine, int, int) { engine.control().finish_updates(); });
    const Outcome spoilt = outcome_of(options, [](TiedNet& net, Engine& engine, int step, int rank) {
      engine.control().finish_updates();
      leave_gradients(net, engine, step, rank);
      net.zero_grad();
    });
    EXPECT_EQ(spoilt.norms, clean.norms);
    EXPECT_TRUE(tests::same_bits(spoilt.weights, clean.weights));
  }
}

TEST(DiscardedGradients, PassThatThrewLeavesNoTrace) {
  expect_no_trace(tests::all_stages({}), [](TiedNet& net, Engine&, int step, int rank) {
    const torch::Tensor tokens = tests::tokens_of(step, 0, rank);
    torch::Tensor x = net.block(0).forward(net.table(tokens));
    x.register_hook([](const torch::Tensor& gradient) -> torch::Tensor {
      if (gradient.defined()) throw std::runtime_error("no more");
      return gradient;
    });
    x = net.block(2).forward(net.block(1).forward(x));
    const torch::Tensor loss = tests::next_token_loss(torch::matmul(x, net.table->weight.t()), tokens);
    EXPECT_TRUE(says(message_of<std::runtime_error>([&] { loss.backward(); }), "no more"));
    net.zero_grad();
  });
}

TEST(DiscardedGradients, BetweenForwardAndBackwardCounts) {
  for (const AttachOptions& options : tests::all_stages({.loss_scale = LossScaleOptions{.value = 8}})) {
    SCOPED_TRACE(tests::placement_of(options));
    Outcome late;
    auto nets = tests::tied_nets(2);
    tests::on_every_rank(2, [&](World& ranks) {
      TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
      Engine engine = attach(net, ranks, options);
      std::vector<double> norms;
      for (int step = 0; step < 4; ++step) {
        leave_gradients(net, engine, step, ranks.rank());
        const torch::Tensor loss = engine.scaled(loss_of(net, step, 0, ranks.rank()));
        net.zero_grad();
        loss.backward();
        norms.push_back(engine.step(1e-2).grad_norm);
      }
      Values weights = tests::weights_of(engine);
      if (ranks.rank() == 0) late = {std::move(norms), std::move(weights)};
    });
    const Outcome clean = outcome_of(options, [](TiedNet&, Engine&, int, int) {});
    EXPECT_EQ(late.norms, clean.norms);
    EXPECT_TRUE(tests::same_bits(late.weights, clean.weights));
  }
}

// ---- zero_grad() of a part

// Two ranks with one loss each, in plain libtorch: the mean of both losses.
void plain_backward(TiedNet& net, int step, int micro) {
  ((loss_of(net, step, micro, 0) + loss_of(net, step, micro, 1)) / 2).backward();
}

void expect_plain_weights(const Values& values, TiedNet& plain) {
  std::size_t place = 0;
  std::map<std::string, torch::Tensor> by_name;
  for (const auto& named : plain.named_parameters()) by_name[named.key()] = named.value();
  for (const auto& [name, wanted] : by_name) {
    const double difference = (values.at(place++) - wanted).abs().max().item<double>();
    EXPECT_LE(difference, 1e-6) << name;
  }
}

// zero_grad() of a block drops its gradients of the first pass. Other parameters keep theirs, as in libtorch.
TEST(DiscardedGradients, SubmoduleDropsItsOwnOnly) {
  for (const int accumulate : {1, 2}) {
    for (AttachOptions& options :
         std::vector(tests::all_stages({.optimizer = Sgd{.lr = 0.1, .momentum = 0.9}, .accumulate = accumulate}))) {
      SCOPED_TRACE(case_of(options));
      if (options.stage < 2) options.reduce = Reduce::kLast;
      torch::manual_seed(7);
      TiedNet plain;
      torch::optim::SGD optimizer(plain.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        plain_backward(plain, step, 0);
        plain.block(1).up->zero_grad();
        plain_backward(plain, step, 1);
        plain.block(2).zero_grad();  // not trained further in this step
        optimizer.step();
      }
      auto nets = tests::tied_nets(2);
      tests::on_every_rank(2, [&](World& ranks) {
        TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
        Engine engine = attach(net, ranks, options);
        for (int step = 0; step < 3; ++step) {
          loss_of(net, step, 0, ranks.rank()).backward();
          net.block(1).up->zero_grad();
          loss_of(net, step, 1, ranks.rank()).backward();
          net.block(2).zero_grad();
          const std::map<std::string, double> norms = engine.grad_norms();
          EXPECT_EQ(norms.at("blocks.2.up.weight"), 0);
          EXPECT_GT(norms.at("blocks.1.up.weight"), 0);
          EXPECT_EQ(engine.gradient("blocks.2.down.weight").abs().max().item<double>(), 0);
          double sum = 0;
          for (const auto& [name, norm] : norms) sum += norm * norm;
          EXPECT_NEAR(engine.step(0.1).grad_norm, std::sqrt(sum), 1e-6);
        }
        expect_plain_weights(tests::weights_of(engine), plain);
      });
    }
  }
}

TEST(DiscardedGradients, PartsThatAreAllBeginAnew) {
  expect_no_trace(tests::all_stages({.accumulate = 2}), [](TiedNet& net, Engine& engine, int step, int rank) {
    leave_gradients(net, engine, step, rank);
    net.table->zero_grad();
    net.blocks->zero_grad();
    net.scale.mutable_grad().reset();
  });
}

TEST(DiscardedGradients, RanksThatDropOthersAreRefused) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.stage = 3});
    loss_of(net, 0, 0, ranks.rank()).backward();
    ranks.rank() == 0 ? net.zero_grad() : net.block(1).zero_grad();
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.grad_norms(); }),
                     "zero_grad = rank 1: it drops gradients of different parameters than rank 0"));
    EXPECT_EQ(engine.step(1e-2).step, 1);
  });
}

TEST(DiscardedGradients, StepAfterFullDropIsRefused) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.stage = 3});
    loss_of(net, 0, 0, ranks.rank()).backward();
    net.zero_grad();
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(); }), "step() after its gradients were dropped"));
    loss_of(net, 0, 0, ranks.rank()).backward();
    EXPECT_EQ(engine.step().step, 1);
  });
}

TEST(DiscardedGradients, SaveComesAfterTheDrop) {
  const TemporaryFolder folder;
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.stage = 3});
    loss_of(net, 0, 0, ranks.rank()).backward();
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.save(folder.path() / "x"); }), "zero_grad()"));
    net.zero_grad();
    engine.save(folder.path() / "x");
  });
}

TEST(DiscardedGradients, LookWhileNoneWaitsIsFine) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.stage = 3});
    const auto zero_by_hand = [&] {
      for (torch::Tensor& parameter : net.parameters())
        if (parameter.grad().defined()) parameter.mutable_grad().zero_();
    };
    for (int step = 0; step < 2; ++step) {
      zero_by_hand();
      loss_of(net, step, 0, ranks.rank()).backward();
      EXPECT_EQ(engine.step().step, step + 1);
      zero_by_hand();
    }
  });
}

// The usual loop of a GAN: real and fake points in separate passes, and zero_grad() instead of frozen().
struct GanPair {
  torch::nn::Sequential generator{torch::nn::Linear(2, 8), torch::nn::Tanh(), torch::nn::Linear(8, 2)};
  torch::nn::Sequential critic{torch::nn::Linear(2, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1)};
};

torch::Tensor points_of(int step, int rank, double shift) {
  return torch::sin(torch::arange(16, torch::kFloat) * (1.3 + 0.1 * step) + rank * 2 + shift).reshape({8, 2});
}

torch::Tensor verdict(const torch::Tensor& logits, bool real) {
  return torch::binary_cross_entropy_with_logits(logits, torch::full_like(logits, real ? 1.0 : 0.0));
}

TEST(DiscardedGradients, GanLoopIsThatOfLibtorch) {
  constexpr int kSteps = 20;
  torch::manual_seed(3);
  GanPair plain;
  torch::optim::SGD of_generator(plain.generator->parameters(), 0.2), of_critic(plain.critic->parameters(), 0.2);
  const auto over_ranks = [](const auto& loss) { return (loss(0) + loss(1)) / 2; };
  for (int step = 0; step < kSteps; ++step) {
    std::vector<torch::Tensor> fakes;
    for (int rank = 0; rank < 2; ++rank) fakes.push_back(plain.generator->forward(points_of(step, rank, 0.5)));
    of_critic.zero_grad();
    over_ranks([&](int rank) { return verdict(plain.critic->forward(points_of(step, rank, 0)), true); }).backward();
    over_ranks([&](int rank) {
      return verdict(plain.critic->forward(fakes[static_cast<std::size_t>(rank)].detach()), false);
    }).backward();
    of_critic.step();
    of_generator.zero_grad();
    over_ranks([&](int rank) {
      return verdict(plain.critic->forward(fakes[static_cast<std::size_t>(rank)]), true);
    }).backward();
    of_generator.step();
  }
  for (const AttachOptions& options : tests::all_stages({.optimizer = Sgd{.lr = 0.2}})) {
    SCOPED_TRACE(tests::placement_of(options));
    std::vector<GanPair> pairs(2);
    torch::manual_seed(3);
    pairs[0] = GanPair();
    tests::on_every_rank(2, [&](World& ranks) {
      GanPair& pair = pairs[static_cast<std::size_t>(ranks.rank())];
      Engine generator = attach(*pair.generator, ranks, options), critic = attach(*pair.critic, ranks, options);
      for (int step = 0; step < kSteps; ++step) {
        const torch::Tensor fake = pair.generator->forward(points_of(step, ranks.rank(), 0.5));
        pair.critic->zero_grad();
        verdict(pair.critic->forward(points_of(step, ranks.rank(), 0)), true).backward();
        verdict(pair.critic->forward(fake.detach()), false).backward();
        critic.step();
        pair.generator->zero_grad();
        verdict(pair.critic->forward(fake), true).backward();
        generator.step();
      }
      pair.critic->zero_grad();  // drops gradients of the generator's last pass
      for (const auto& [engine, module] : {std::pair(&generator, plain.generator), std::pair(&critic, plain.critic)})
        for (const auto& named : module->named_parameters())
          EXPECT_LE((engine->full_state(named.key()) - named.value()).abs().max().item<double>(), 1e-6) << named.key();
      EXPECT_LE(critic.report().trace_mismatches, 1);
    });
  }
}

// ---- short groups of micro-batches

TEST(ShortGroups, RefusedOnesCanBeDropped) {
  for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
    std::vector<AttachOptions> all = tests::all_stages({.accumulate = 2});
    for (AttachOptions& options : all)
      if (options.stage < 2) options.reduce = reduce;
    expect_no_trace(all, [](TiedNet& net, Engine& engine, int step, int rank) {
      leave_gradients(net, engine, step, rank);
      const std::string message = message_of<ConfigError>([&] { engine.step(); });
      EXPECT_TRUE(says(message, "accumulate = 2: this step had 1 backward passes"));
      EXPECT_TRUE(says(message, ".fewer_micro_batches = true"));
      if (step % 2 == 0) {
        engine.discard_gradients();
        return;
      }
      for (int more = 0; more < 2; ++more) leave_gradients(net, engine, step, rank);
      EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(); }), "discard_gradients()"));
      net.zero_grad();
    });
  }
}

// Groups of 3, 2, 3 and 1 micro-batches. Each step has the mean of its own micro-batches.
TEST(ShortGroups, StepTakesTheAvailableMean) {
  const std::vector<int> groups{3, 2, 3, 1, 3};
  torch::manual_seed(7);
  TiedNet plain;
  torch::optim::SGD optimizer(plain.parameters(), 0.1);
  for (std::size_t step = 0; step < groups.size(); ++step) {
    optimizer.zero_grad();
    torch::Tensor loss = torch::zeros({});
    for (int micro = 0; micro < groups[step]; ++micro)
      for (int rank = 0; rank < 2; ++rank) loss = loss + loss_of(plain, static_cast<int>(step), micro, rank);
    (loss / (2.0 * groups[step])).backward();
    optimizer.step();
  }
  for (const bool averages : {true, false}) {
    for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
      for (AttachOptions options :
           tests::all_stages({.optimizer = Sgd{.lr = 0.1}, .accumulate = 3, .average_micro_batches = averages})) {
        SCOPED_TRACE(tests::placement_of(options));
        if (options.stage < 2) options.reduce = reduce;
        if (options.stage > 1) options.offload.fractions.gradient = {.host = 1};
        auto nets = tests::tied_nets(2);
        tests::on_every_rank(2, [&](World& ranks) {
          TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
          Engine engine = attach(net, ranks, options);
          for (std::size_t step = 0; step < groups.size(); ++step) {
            for (int micro = 0; micro < groups[step]; ++micro) {
              const torch::Tensor loss = loss_of(net, static_cast<int>(step), micro, ranks.rank());
              (averages ? loss : loss / groups[step]).backward();
            }
            engine.step(0.1, {.fewer_micro_batches = true});
          }
          expect_plain_weights(tests::weights_of(engine), plain);
          EXPECT_EQ(engine.report().trace_mismatches, 0);
        });
      }
    }
  }
}

TEST(ShortGroups, HaveAWholeGroupsBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (AttachOptions options : tests::all_stages({.average_micro_batches = true, .dtype = dtype})) {
      SCOPED_TRACE(tests::placement_of(options));
      if (options.stage < 2) options.reduce = Reduce::kLast;
      std::vector<Values> weights;
      for (const int accumulate : {2, 4}) {
        options.accumulate = accumulate;
        auto nets = tests::tied_nets(2);
        tests::on_every_rank(2, [&](World& ranks) {
          TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
          Engine engine = attach(net, ranks, options);
          for (int step = 0; step < 3; ++step) {
            for (int micro = 0; micro < 2; ++micro) loss_of(net, step, micro, ranks.rank()).backward();
            engine.step(1e-2, {.fewer_micro_batches = true});
          }
          Values mine = tests::weights_of(engine);
          if (ranks.rank() == 0) weights.push_back(std::move(mine));
        });
      }
      EXPECT_TRUE(tests::same_bits(weights[0], weights[1]));
    }
  }
}

TEST(ShortGroups, OfOtherLengthsAreRefused) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.stage = 0, .reduce = Reduce::kLast, .accumulate = 3});
    for (int micro = 0; micro <= ranks.rank(); ++micro) loss_of(net, 0, micro, ranks.rank()).backward();
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(0.1, {.fewer_micro_batches = true}); }),
                     "accumulate = 3: rank 1 had 2 micro-batches in this step, and rank 0 had 1"));
  });
}

TEST(ShortGroups, EmptyAndLongOnesAreRefused) {
  auto nets = tests::tied_nets(1);
  tests::on_every_rank(1, [&](World& ranks) {
    TiedNet& net = *nets.front();
    Engine engine = attach(net, ranks, {.stage = 3, .accumulate = 2});
    const auto step = [&] { engine.step(0.1, {.fewer_micro_batches = true}); };
    EXPECT_TRUE(says(message_of<ConfigError>(step), "had 0 backward passes"));
    for (int micro = 0; micro < 3; ++micro) loss_of(net, 0, micro, 0).backward();
    EXPECT_TRUE(says(message_of<ConfigError>(step), "had 3 backward passes"));
  });
}

}  // namespace
}  // namespace zero
