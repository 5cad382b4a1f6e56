// A module whose copies train apart. Exported and returned weights are those that the copies share.
#include <gtest/gtest.h>

#include "zero/checkpoint/safetensors.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/subjects.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

using tests::Values;
using tests::weights_of;

struct Seen {
  Values own, shared, merged, given_back;
};

// Each rank trains three steps in rounds of two. Records its own weights, the shared weights, and the weights after a
// last merge.
std::vector<Seen> train_apart(int world, const AttachOptions& options) {
  const TemporaryFolder folder;
  std::vector<Seen> seen(static_cast<std::size_t>(world));
  std::vector<std::shared_ptr<tests::TiedNet>> nets = tests::tied_nets(world);
  tests::on_every_rank(world, [&](World& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    tests::TiedNet& net = *nets[rank];
    Seen& mine = seen[rank];
    {
      Engine engine = attach(net, ranks, options);
      for (int step = 0; step < 3; ++step) {
        engine.scaled(tests::loss_of(net, step, 0, ranks.rank())).backward();
        EXPECT_EQ(engine.step(1e-2).merged, step == 1);
      }
      mine.own = weights_of(engine);
      {
        const auto scope = engine.averaged();
        mine.shared = weights_of(engine);
      }
      EXPECT_TRUE(tests::same_bits(weights_of(engine), mine.own));
      engine.export_weights(folder.path() / "weights.safetensors", /*full_precision=*/true);
      EXPECT_TRUE(tests::same_bits(weights_of(engine), mine.own));
      engine.merge_copies();
      mine.merged = weights_of(engine);
      engine.merge_copies();
      EXPECT_TRUE(tests::same_bits(weights_of(engine), mine.merged))
          << "directly after an outer step, merging changes nothing";
      engine.scaled(tests::loss_of(net, 3, 0, ranks.rank())).backward();
      engine.step(1e-2);  // the last step of a round
    }
    for (const torch::Tensor& parameter : net.parameters()) mine.given_back.push_back(parameter.detach().clone());
  });
  return seen;
}

// All copies have the weights of the last merge as shared weights.
TEST(AttachedLocalSteps, CopiesDifferUntilMerged) {
  for (const int stage : {0, 1, 3}) {
    const auto seen = train_apart(4, {.stage = stage, .group = 2, .local = LocalSteps{.steps = 2}});
    EXPECT_TRUE(tests::same_bits(seen[0].own, seen[1].own)) << "one copy";
    EXPECT_FALSE(tests::same_bits(seen[0].own, seen[2].own)) << "two copies";
    for (const Seen& rank : seen) {
      EXPECT_TRUE(tests::same_bits(rank.shared, seen[0].shared));
      EXPECT_TRUE(tests::same_bits(rank.merged, seen[0].merged));
      EXPECT_TRUE(tests::same_bits(rank.given_back, seen[0].given_back));
    }
    EXPECT_FALSE(tests::same_bits(seen[0].shared, seen[0].own));
    EXPECT_FALSE(tests::same_bits(seen[0].shared, seen[0].merged));
  }
}

TEST(AttachedLocalSteps, StagesAndTypesKeepBits) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    const AttachOptions options{.group = 1, .local = LocalSteps{.steps = 2}, .clip = 0.5, .dtype = dtype};
    const auto expected = train_apart(2, options);
    for (const AttachOptions& placed : tests::all_stages(options)) {
      const auto seen = train_apart(2, placed);
      for (std::size_t rank = 0; rank < 2; ++rank) {
        EXPECT_TRUE(tests::same_bits(seen[rank].own, expected[rank].own)) << tests::placement_of(placed);
        EXPECT_TRUE(tests::same_bits(seen[rank].shared, expected[rank].shared)) << tests::placement_of(placed);
        EXPECT_TRUE(tests::same_bits(seen[rank].given_back, expected[rank].given_back)) << tests::placement_of(placed);
      }
    }
  }
}

TEST(AttachedLocalSteps, ExportTheSharedWeights) {
  const TemporaryFolder folder;
  tests::on_every_rank(2, [&](World& ranks) {
    torch::nn::Linear net(3, 2);
    Engine engine = attach(*net, ranks, {.local = LocalSteps{.steps = 2}});
    const auto first = weights_of(engine);
    const auto x = torch::full({4, 3}, ranks.rank() + 1.0);
    net->forward(x).sum().backward();
    engine.step();
    engine.export_weights(folder.path() / "w.safetensors");
    if (ranks.rank() == 0) {
      const auto file = SafetensorsFile::open(folder.path() / "w.safetensors");
      torch::Tensor bias = torch::empty({2});
      file.read(file.at("bias"), 0, {static_cast<std::byte*>(bias.data_ptr()), bias.nbytes()});
      EXPECT_TRUE(tests::same_bits(bias, first[0])) << "no outer step was taken yet";
    }
  });
}

TEST(AttachedLocalSteps, MergeNothingWithoutTheOption) {
  tests::on_every_rank(1, [](World& ranks) {
    torch::nn::Linear net(3, 2);
    Engine engine = attach(*net, ranks, {});
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.merge_copies(); }), "give attach() outer steps: .local"));
  });
}

}  // namespace
}  // namespace zero
