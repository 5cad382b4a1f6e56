// Workers train a module for servers in a user's program: attach() on all ranks, serve() on servers.
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

using tests::Values;
using tests::weights_of;

void train(Engine& engine, tests::TiedNet& net, int as) {
  for (int step = 0; step < 3; ++step) {
    tests::loss_of(net, step, 0, as).backward();
    engine.step(1e-2);
  }
}

// Rank 0's weights.
Values train_on(int world, const AttachOptions& options) {
  Values weights;
  std::vector<std::shared_ptr<tests::TiedNet>> nets = tests::tied_nets(world);
  tests::on_every_rank(world, [&](World& ranks) {
    const int rank = ranks.rank();
    tests::TiedNet& net = *nets[static_cast<std::size_t>(rank)];
    Engine engine = attach(net, ranks, options);
    const SyncPlan& sync = options.sync;
    if (sync.has_servers() && !sync.is_server(rank)) return train(engine, net, sync.worker_of(rank));
    sync.has_servers() ? engine.serve() : train(engine, net, rank);
    const Values all = weights_of(engine);
    if (rank == 0) weights = all;
  });
  return weights;
}

TEST(AttachedToServers, WorkersTrainLikeServerlessRanks) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Values plain = train_on(2, {.dtype = dtype});
    EXPECT_TRUE(tests::same_bits(train_on(3, {.sync = {.servers = 1}, .dtype = dtype}), plain));
    EXPECT_TRUE(tests::same_bits(train_on(4, {.sync = {.servers = 2}, .dtype = dtype}), plain));
    for (const Cut shards : {Cut::kHash, Cut::kWhole, Cut::kWeighted})  // with measured weights
      EXPECT_TRUE(tests::same_bits(train_on(4, {.shards = shards, .sync = {.servers = 2}, .dtype = dtype}), plain))
          << name_of(shards);
  }
}

TEST(AttachedToServers, EachRankHasItsOwnPart) {
  std::vector<std::shared_ptr<tests::TiedNet>> nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    tests::TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.sync = {.servers = 1}});
    if (ranks.rank() == 0) {
      EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(0.1); }), "called on a server"));
      engine.serve();
    } else {
      EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.serve(); }), "called on a rank that is not a server"));
    }
  });
}

TEST(AttachedToServers, RunningStatisticsAreRefused) {
  tests::on_every_rank(2, [&](World& ranks) {
    torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
    const std::string message = message_of<ConfigError>([&] { attach(*net, ranks, {.sync = {.servers = 1}}); });
    EXPECT_TRUE(says(message, "the module keeps running statistics (1.running_mean)")) << message;
  });
}

}  // namespace
}  // namespace zero
