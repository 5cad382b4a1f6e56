// A module with units cut by whole parameters or hashed blocks: `shards` changes which rank holds which states, but no
// bit of the results.
#include <atomic>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::RunResult;

// Layers with 4,096 elements and more in one unit, so hashing splits them.
struct WideNet : torch::nn::Module {
  WideNet() : first(32, 130), second(130, 130), last(130, 1) {
    register_module("first", first);
    register_module("second", second);
    register_module("last", last);
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::tanh(second(torch::tanh(first(x))))); }
  torch::nn::Linear first, second, last;
};

tests::Subject wide_net() {
  auto net = std::make_shared<WideNet>();
  return {net, [net](int step, int micro, int rank) {
            const torch::Tensor rows = (torch::arange(4 * 32) * (step + 3) + micro * 5 + rank * 7).remainder(11);
            return net->forward(rows.reshape({4, 32}).to(net->first->weight.scalar_type()) / 11).square().mean();
          }};
}

void expect_same(const RunResult& seen, const RunResult& expected, const std::string& where) {
  EXPECT_EQ(seen.loss_bits, expected.loss_bits) << where;
  EXPECT_TRUE(tests::same_bits(seen.parameters, expected.parameters)) << where;
  EXPECT_TRUE(tests::same_bits(seen.given_back, expected.given_back)) << where;
}

// Bit for bit.
TEST(AttachedCuts, MatchEqualRanges) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    AttachOptions options{.accumulate = 2, .dtype = dtype};
    const RunResult expected = tests::train(3, 3, options, wide_net);
    options.shards = Cut::kWhole;
    for (const AttachOptions& placed : tests::all_stages(options))
      expect_same(tests::train(3, 3, placed, wide_net), expected, "whole, " + tests::placement_of(placed));
    options.shards = Cut::kWeighted;
    options.shard_weights = {1, 4, 2};
    for (const AttachOptions& placed : tests::all_stages(options))
      expect_same(tests::train(3, 3, placed, wide_net), expected, "weighted, " + tests::placement_of(placed));
    options.shard_weights.clear();
    expect_same(tests::train(3, 3, options, wide_net), expected, "weighted by memory");
    options.shards = Cut::kHash;
    expect_same(tests::train(3, 3, options, wide_net), expected, "hash");
  }
}

// An optimizer state and a gradient on rank 0, and the number of elements of the state that each rank owns.
struct Seen {
  torch::Tensor moment, gradient;
  std::int64_t owned = 0;
};

Seen read_states(Cut shards, const std::vector<double>& weights = {}) {
  Seen seen;
  std::vector<std::shared_ptr<WideNet>> nets;
  torch::manual_seed(1);
  for (int rank = 0; rank < 3; ++rank) nets.push_back(std::make_shared<WideNet>());
  std::atomic<std::int64_t> owned{0};
  tests::on_every_rank(3, [&](World& ranks) {
    WideNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, {.shards = shards, .shard_weights = weights});
    const auto loss = [&] { return net.forward(torch::ones({2, 32})).square().mean(); };
    loss().backward();
    engine.step();
    loss().backward();
    const torch::Tensor gradient = engine.gradient("second.weight");
    engine.step();
    const torch::Tensor moment = engine.full_state("second.weight", "exp_avg");
    if (shards == Cut::kHash) {
      EXPECT_TRUE(
          says(message_of<ConfigError>([&] { engine.state_shard("second.weight", "exp_avg"); }), "call full_state()"));
    } else {
      const StateShard shard = engine.state_shard("second.weight", "exp_avg");
      EXPECT_TRUE(tests::same_bits(moment.view(-1).narrow(0, shard.offset, shard.values.numel()), shard.values));
      owned += shard.values.numel();
    }
    if (ranks.rank() == 0) seen = {moment, gradient};
  });
  seen.owned = owned;
  return seen;
}

TEST(AttachedCuts, TellStatesAndGradientsByName) {
  const Seen range = read_states(Cut::kRange), whole = read_states(Cut::kWhole), hash = read_states(Cut::kHash),
             weighted = read_states(Cut::kWeighted, {1, 3, 1});
  for (const Seen* seen : {&whole, &hash, &weighted}) {
    EXPECT_TRUE(tests::same_bits(seen->moment, range.moment));
    EXPECT_TRUE(tests::same_bits(seen->gradient, range.gradient));
  }
  EXPECT_EQ(range.owned, 130 * 130);
  EXPECT_EQ(whole.owned, 130 * 130);
  EXPECT_EQ(weighted.owned, 130 * 130);
}

}  // namespace
}  // namespace zero
