// Operators wrote different values into a parameter on each rank, without a message. At stage 0 replicas then differed,
// and at stage 3 only the owner's write remained. An embedding with max_norm did so in each forward pass.
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/pipeline/pipeline_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::TiedNet;

constexpr double kLr = 0.5, kMaxNorm = 0.75;

struct NormedNet : torch::nn::Module {
  NormedNet()
      : table(torch::nn::EmbeddingOptions(11, 6).max_norm(kMaxNorm)),
        bag(torch::nn::EmbeddingBagOptions(11, 6).max_norm(kMaxNorm)),
        head(6, 11) {
    register_module("table", table);
    register_module("bag", bag);
    register_module("head", head);
  }
  torch::Tensor loss(const torch::Tensor& tokens) {
    const torch::Tensor sums = bag(tokens.reshape({-1, 5})).repeat_interleave(5, 0);
    return tests::next_token_loss(head(table(tokens).reshape({-1, 6}) + sums), tokens);
  }
  torch::nn::Embedding table;
  torch::nn::EmbeddingBag bag;
  torch::nn::Linear head;
};

// Each rank has a few tokens of its own, so ranks renormalise different rows.
torch::Tensor tokens_of_rank(int step, int rank) {
  return (torch::arange(20).remainder(3) + step + rank * 4).remainder(11).reshape({2, 10});
}

std::shared_ptr<NormedNet> normed_net() {
  torch::manual_seed(7);
  return std::make_shared<NormedNet>();
}

// Trains three steps on each rank, and runs a last forward pass. Returns the whole weights of rank `of`.
tests::Values train(int world, const AttachOptions& options, const std::function<torch::Tensor(int, int)>& tokens,
                    int of = 0) {
  std::vector<std::shared_ptr<NormedNet>> nets;
  for (int rank = 0; rank < world; ++rank) nets.push_back(normed_net());
  tests::Values weights;
  tests::on_every_rank(world, [&](World& ranks) {
    NormedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, options);
    for (int step = 0; step < 3; ++step) {
      net.loss(tokens(step, ranks.rank())).backward();
      engine.step(kLr);
    }
    {
      const torch::NoGradGuard evaluation;
      net.loss(tokens(3, ranks.rank()));
    }
    tests::Values all;  // as this rank holds them
    for (const torch::Tensor& parameter : net.parameters()) all.push_back(parameter.detach().clone());
    if (ranks.rank() == of) weights = all;
  });
  return weights;
}

const AttachOptions kSgd{.optimizer = Sgd{.lr = kLr}};

TEST(MaxNorm, RenormalisesRowsOfAllRanks) {
  const auto both = [](int step, int) { return torch::cat({tokens_of_rank(step, 0), tokens_of_rank(step, 1)}); };
  const tests::Values alone = train(1, kSgd, both);
  const tests::Values first = train(2, kSgd, tokens_of_rank);
  for (std::size_t i = 0; i < alone.size(); ++i)
    EXPECT_TRUE(torch::allclose(first[i], alone[i], 1e-5, 1e-6)) << i << ": one rank, with the tokens of both";
  EXPECT_GT((normed_net()->table->weight.norm(2, 1) > kMaxNorm).sum().item<std::int64_t>(), 5) << "rows are renormed";
  for (const AttachOptions& options : tests::all_stages(kSgd)) {
    SCOPED_TRACE(tests::placement_of(options));
    EXPECT_TRUE(tests::same_bits(train(2, options, tokens_of_rank, 0), first));
    EXPECT_TRUE(tests::same_bits(train(2, options, tokens_of_rank, 1), first));
  }
}

TEST(MaxNorm, OneRankHasLibtorchsBits) {
  torch::set_num_threads(1);
  const auto plain = normed_net();
  for (int step = 0; step < 3; ++step) {
    plain->loss(tokens_of_rank(step, 0)).backward();
    const torch::NoGradGuard no_gradients;
    for (torch::Tensor& parameter : plain->parameters()) {
      parameter.copy_(parameter + parameter.grad() * -kLr);
      parameter.mutable_grad().reset();
    }
  }
  {
    const torch::NoGradGuard evaluation;
    plain->loss(tokens_of_rank(3, 0));
  }
  for (const AttachOptions& options : tests::all_stages(kSgd))
    EXPECT_TRUE(tests::same_bits(train(1, options, tokens_of_rank), plain->parameters()))
        << tests::placement_of(options);
}

// Copies that train apart have rows of their own ranks. No outer step follows here.
TEST(MaxNorm, LocalCopiesRenormaliseTheirRows) {
  AttachOptions local = kSgd;
  local.local = LocalSteps{.steps = 100};
  for (const int copy : {0, 1}) {
    const auto tokens = [copy](int step, int rank) { return tokens_of_rank(step, rank + 2 * copy); };
    EXPECT_TRUE(tests::same_bits(train(2, local, tokens, copy),
                                 train(1, kSgd, [&](int step, int) { return tokens(step, copy); })));
    local.group = 2;
    const tests::Values alone =
        train(2, kSgd, [copy](int step, int rank) { return tokens_of_rank(step, rank + 2 * copy); });
    EXPECT_TRUE(tests::same_bits(train(4, local, tokens_of_rank, 2 * copy), alone));
    EXPECT_TRUE(tests::same_bits(train(4, local, tokens_of_rank, 2 * copy + 1), alone));
    local.group = 0;
  }
}

// The order of the writes would depend on the number of ranks.
TEST(MaxNorm, LeavesRefuseItByName) {
  for (const int world : {1, 2}) {
    tests::on_every_rank(world, [](World& ranks) {
      const auto net = std::make_shared<NormedNet>();
      Engine engine = attach(*net, ranks, {.leaves = 2});
      EXPECT_TRUE(says(message_of<ConfigError>([&] { net->loss(tokens_of_rank(0, ranks.rank())); }),
                       "train.leaves = 2: an embedding with max_norm writes into bag.weight in each forward pass"));
    });
  }
}

TEST(MaxNorm, AWorkersStepIsRefused) {
  for (const int world : {2, 3}) {
    tests::on_every_rank(world, [](World& ranks) {
      const auto net = std::make_shared<NormedNet>();
      Engine engine = attach(*net, ranks, {.sync = {.servers = 1}});
      if (ranks.rank() == 0) return engine.serve();
      net->loss(tokens_of_rank(0, ranks.rank())).backward();
      EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(kLr); }),
                       "attach = table.weight: a worker wrote into this parameter, but its values belong to the"));
    });
  }
}

TEST(MaxNorm, APipelineRefusesItByName) {
  tests::on_every_rank(2, [](World& ranks) {
    const auto net = std::make_shared<NormedNet>();
    PipelineEngine engine = attach_pipeline(*net, ranks, kSgd, {.pipeline = 2});
    const auto loss = [&](int) { return net->loss(tokens_of_rank(0, 0)); };
    const std::string refused = "passes = aten::embedding_renorm_: it writes the parameter bag.weight within a pass";
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.passes(loss); }), refused));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.prepare(loss); }), refused));
  });
}

// `pipeline = 1` is the plain loop.
TEST(MaxNorm, OnePositionHasAttachsBits) {
  const auto make = []() -> tests::Subject {
    auto net = std::make_shared<NormedNet>();
    return {net, [net](int step, int, int rank) { return net->loss(tokens_of_rank(step, rank)); }};
  };
  const tests::PipelinedRun run = tests::train_pipelined(2, 3, kSgd, {.pipeline = 1}, make);
  const tests::RunResult plain = tests::train(2, 3, kSgd, make);
  EXPECT_TRUE(tests::same_bits(run.given_back, plain.given_back));
  EXPECT_EQ(run.grad_norms, plain.grad_norms);
}

// ---- other writes

void at_every_stage(const std::function<void(TiedNet&, Engine&, int)>& body, AttachOptions options = {}) {
  for (const AttachOptions& stage : tests::all_stages(std::move(options))) {
    SCOPED_TRACE(tests::placement_of(stage));
    auto nets = tests::tied_nets(2);
    tests::on_every_rank(2, [&](World& ranks) {
      TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
      Engine engine = attach(net, ranks, stage);
      body(net, engine, ranks.rank());
    });
  }
}

std::string refusal_of_step(TiedNet& net, Engine& engine, int rank) {
  loss_of(net, 0, 0, rank).backward();
  return message_of<ConfigError>([&] { engine.step(); });
}

constexpr const char* kRefusal =
    "attach = blocks.1.up.weight: rank 1 wrote different values into this parameter than rank 0";

TEST(RankWrites, OtherValuesAreRefusedByName) {
  at_every_stage([](TiedNet& net, Engine& engine, int rank) {
    {
      const torch::NoGradGuard no_gradients;
      net.block(0).up->weight.clamp_(-0.1, 0.1);  // the same on all ranks
      net.block(1).up->weight.add_(rank + 1);     // noise of each rank
      net.block(1).up->weight.fill_(1);           // the same again, but different values were lost
    }
    EXPECT_TRUE(says(refusal_of_step(net, engine, rank), kRefusal));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(); }), kRefusal)) << "it stays refused";
  });
}

TEST(RankWrites, SavesAndExportsAreRefused) {
  const TemporaryFolder folder;
  at_every_stage([&](TiedNet& net, Engine& engine, int rank) {
    {
      const torch::NoGradGuard no_gradients;
      net.block(1).up->weight.mul_(rank + 1);
    }
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.save(folder.path() / "saved"); }), kRefusal));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.export_weights(folder.path() / "weights"); }), kRefusal));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { tests::weights_of(engine); }), kRefusal));
  });
}

TEST(RankWrites, ALoadMakesRanksEqualAgain) {
  const TemporaryFolder folder;
  int stage = 0;
  at_every_stage([&](TiedNet& net, Engine& engine, int rank) {
    const auto path = folder.path() / std::to_string(stage);
    engine.save(path);
    {
      const torch::NoGradGuard no_gradients;
      net.block(1).up->weight.mul_(rank + 1);
    }
    engine.load(path);
    loss_of(net, 0, 0, rank).backward();
    EXPECT_EQ(engine.step().step, 1);
    if (rank == 0) ++stage;
  });
}

TEST(RankWrites, UnchangedBytesAreNoWrite) {
  at_every_stage([](TiedNet& net, Engine& engine, int rank) {
    {
      const torch::NoGradGuard no_gradients;
      net.block(1).up->weight.clamp_(-100 - rank, 100 + rank);
      net.scale.mul_(2);
      net.table->weight.copy_(torch::full_like(net.table->weight, 0.5));
    }
    loss_of(net, 0, 0, rank).backward();
    EXPECT_EQ(engine.step().step, 1);
  });
}

TEST(RankWrites, GatheredScopeTakesOneRanksValues) {
  at_every_stage([](TiedNet& net, Engine& engine, int rank) {
    {
      const auto scope = engine.gathered(net, /*source_rank=*/1);
      const torch::NoGradGuard no_gradients;
      net.block(1).up->weight.fill_(rank + 1);
    }
    loss_of(net, 0, 0, rank).backward();
    EXPECT_EQ(engine.step(0).step, 1);
    EXPECT_EQ(engine.full_state("blocks.1.up.weight").mean().item<double>(), 2);
  });
}

TEST(RankWrites, GatheredScopeWithoutSourceIsCompared) {
  at_every_stage([](TiedNet& net, Engine& engine, int rank) {
    {
      const auto scope = engine.gathered(net);
      net.block(1).up->weight.mutable_data_ptr<float>()[3] = static_cast<float>(rank);
    }
    EXPECT_TRUE(says(refusal_of_step(net, engine, rank), kRefusal));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { const auto scope = engine.gathered(net, 2); }),
                     "gathered(source_rank) = 2: there is no such rank among 2 ranks"));
  });
}

// Copies that train apart have different weights, and may write different values.
TEST(RankWrites, LocalCopiesAreNotCompared) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.local = LocalSteps{.steps = 2}});
    {
      const torch::NoGradGuard no_gradients;
      net.block(1).up->weight.mul_(ranks.rank() + 1);
    }
    loss_of(net, 0, 0, ranks.rank()).backward();
    EXPECT_EQ(engine.step().step, 1);
  });
}

// Two lines of two positions. Between steps a rank may write the parameters of its own position.
TEST(RankWrites, LinesOfAPipelineAreCompared) {
  for (const bool differ : {false, true}) {
    auto nets = tests::tied_nets(4);
    tests::on_every_rank(4, [&](World& ranks) {
      TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
      const int position = ranks.rank() / 2, line = ranks.rank() % 2;
      AttachOptions options = kSgd;
      options.stage = 1;
      PipelineEngine engine = attach_pipeline(net, ranks, options, {.pipeline = 2});
      const auto passes = [&](int step) { engine.passes([&](int micro) { return loss_of(net, step, micro, line); }); };
      passes(0);
      engine.step(0);
      {
        const torch::NoGradGuard no_gradients;
        net.block(position == 0 ? 0 : 2).up->weight.fill_(differ && position == 1 ? line + 2 : 2);
        EXPECT_TRUE(
            says(message_of<c10::Error>([&] { net.block(position == 0 ? 2 : 0).up->weight.fill_(2); }),
                 position == 0 ? "blocks.2.up.weight: another section" : "blocks.0.up.weight: another section"));
      }
      passes(1);
      if (differ && position == 1) {
        EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(0); }),
                         "attach = blocks.2.up.weight: rank 1 wrote different values into this parameter than rank 0"));
        return engine.abandon();  // as an exception that ends the rank
      }
      if (differ) {
        EXPECT_THROW(engine.step(0), Error) << "the other position has ended";
        return engine.abandon();
      }
      EXPECT_EQ(engine.step(0).step, 2);
      engine.for_each_parameter([](const std::string& name, const torch::Tensor& tensor) {
        if (name == "blocks.0.up.weight" || name == "blocks.2.up.weight") {
          EXPECT_EQ(tensor.mean().item<double>(), 2) << name;
        }
      });
    });
  }
}

TEST(RankWrites, AWorkersWriteIsRefused) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.sync = {.servers = 1}});
    if (ranks.rank() == 0) return engine.serve();
    {
      const torch::NoGradGuard no_gradients;
      net.block(1).up->weight.mul_(2);
    }
    EXPECT_TRUE(
        says(refusal_of_step(net, engine, 0),
             "attach = blocks.1.up.weight: a worker wrote into this parameter, but its values belong to the servers"));
  });
}

}  // namespace
}  // namespace zero
