// Frozen parameters of integers or booleans: quantised weights beside a trained adapter.
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

struct Quantised : torch::nn::Module {
  explicit Quantised(int rank) {
    codes = register_parameter("codes", torch::arange(12).reshape({4, 3}).to(torch::kChar) + rank, false);
    mask = register_parameter("mask", torch::arange(3).remainder(2) == rank % 2, false);
    adapter = register_parameter("adapter", torch::full({3}, 0.5 + rank));
  }
  torch::Tensor loss(int rank) {
    return (torch::ones({2, 4}) * (rank + 1)).matmul(codes.to(torch::kFloat) * mask * adapter).square().mean();
  }
  torch::Tensor codes, mask, adapter;
};

TEST(QuantisedParameters, AreRankZerosEverywhere) {
  const TemporaryFolder folder;
  std::vector<tests::Values> weights;
  for (const AttachOptions& options : tests::all_stages({})) {
    SCOPED_TRACE(tests::placement_of(options));
    tests::on_every_rank(2, [&](World& ranks) {
      const Quantised first(0);
      Quantised net(ranks.rank());
      {
        Engine engine = attach(net, ranks, options);
        ASSERT_EQ(engine.parameters().size(), 1u);
        EXPECT_TRUE(torch::equal(net.codes, first.codes));
        EXPECT_TRUE(torch::equal(net.mask, first.mask));
        static_cast<void>(net.codes.const_data_ptr());
        for (int step = 0; step < 2; ++step) {
          net.loss(ranks.rank()).backward();
          engine.step(0.1);
        }
        const auto path = folder.path() / tests::placement_of(options);
        engine.save(path);
        net.codes.fill_(1);
        engine.load(path);
        EXPECT_TRUE(torch::equal(net.codes, first.codes)) << "saved as a buffer";
        const auto whole = engine.gathered(net);
        EXPECT_EQ(net.adapter.numel(), 3);
        if (ranks.rank() == 0) weights.push_back({net.adapter.detach().clone()});
      }
      EXPECT_TRUE(torch::equal(net.codes, first.codes));
      EXPECT_FALSE(torch::equal(net.adapter.detach(), first.adapter.detach()));
    });
  }
  for (const tests::Values& other : weights) EXPECT_TRUE(tests::same_bits(other, weights.front()));
}

TEST(QuantisedParameters, KeepTheirTypeBesideDtype) {
  tests::on_every_rank(1, [](World& ranks) {
    Quantised net(0);
    Engine engine = attach(net, ranks, {.stage = 3, .dtype = DType::kBFloat16});
    EXPECT_EQ(net.codes.scalar_type(), torch::kChar);
    EXPECT_EQ(net.adapter.scalar_type(), torch::kBFloat16);
  });
}

TEST(QuantisedParameters, OtherTypesAreRefused) {
  struct Double : torch::nn::Module {
    torch::Tensor w = register_parameter("w", torch::ones({2}, torch::kDouble), false);
  } net;
  tests::on_every_rank(1, [&](World& ranks) {
    EXPECT_TRUE(says(message_of<ConfigError>([&] { attach(net, ranks, {}); }), "w: its type is Double"));
  });
}

}  // namespace
}  // namespace zero
