// The examples of docs/api.md at stage 3 on two ranks. tests/tools/tools_test.py checks that the page quotes them.
#include <fstream>
#include <mutex>

#include <gtest/gtest.h>

#include "examples/api/accumulate.cpp"
#include "examples/api/checkpoints.cpp"
#include "examples/api/ema.cpp"
#include "examples/api/evaluate.cpp"
#include "examples/api/export_for_python.cpp"
#include "examples/api/freeze.cpp"
#include "examples/api/from_safetensors.cpp"
#include "examples/api/gan.cpp"
#include "examples/api/gradient_penalty.cpp"
#include "examples/api/half.cpp"
#include "examples/api/lstm.cpp"
#include "examples/api/over_ranks.cpp"
#include "examples/api/own_model.cpp"
#include "examples/api/own_update_rule.cpp"
#include "examples/api/place_states.cpp"
#include "examples/api/resnet.cpp"
#include "examples/api/resume.cpp"
#include "examples/api/save_all.cpp"
#include "examples/api/tied.cpp"
#include "tests/support/temporary_folder.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

void expect_learns(const std::function<std::vector<double>(World&)>& example, double factor) {
  torch::manual_seed(11);
  tests::on_every_rank(2, [&](World& world) {
    const std::vector<double> losses = example(world);
    EXPECT_LT(losses.back(), factor * losses.front());
  });
}

TEST(ApiExamples, AResNetLearnsInBf16) {
  expect_learns(examples::train_resnet, 0.8);
}
TEST(ApiExamples, ANetLearnsInFp16) {
  expect_learns(examples::train_in_half, 0.5);
}
TEST(ApiExamples, AnLstmLearns) {
  expect_learns(examples::train_lstm, 0.8);
}
TEST(ApiExamples, MicroBatchesAreAccumulated) {
  expect_learns(examples::accumulate_gradients, 0.5);
}
TEST(ApiExamples, AGradientPenaltyIsMinimised) {
  expect_learns(examples::train_with_penalty, 0.3);
}
TEST(ApiExamples, AnOwnUpdateRuleTrains) {
  expect_learns(examples::train_with_own_rule, 0.5);
}

TEST(ApiExamples, BlocksWithCheckpointsLearn) {
  expect_learns(examples::train_with_checkpoints, 0.5);
}

TEST(ApiExamples, AGeneratorLearnsFromACritic) {
  torch::manual_seed(11);
  tests::on_every_rank(2, [](World& world) { EXPECT_NEAR(examples::train_gan(world), 3, 1.5); });
}

TEST(ApiExamples, TwoEnginesGoOnTogether) {
  const TemporaryFolder folder;
  tests::on_every_rank(2, [&](World& world) {
    EXPECT_EQ(examples::train_two_or_go_on(world, folder.path() / "checkpoint", 50), 50);
    EXPECT_EQ(examples::train_two_or_go_on(world, folder.path() / "checkpoint", 50), 10);
  });
}

TEST(ApiExamples, FitsModelThatIsNoModule) {
  tests::on_every_rank(2, [](World& world) {
    const torch::Tensor found = examples::fit_polynomial(world);
    EXPECT_TRUE(torch::allclose(found, torch::tensor({1.0f, 2.0f, 0.0f, 0.0f}), 1e-2, 5e-2)) << found;
  });
}

TEST(ApiExamples, WhatIsFrozenStays) {
  torch::manual_seed(11);
  tests::on_every_rank(2, [](World& world) {
    const auto [body, head] = examples::fine_tune_head(world);
    EXPECT_EQ(body, 0);
    EXPECT_GT(head, 0);
  });
}

TEST(ApiExamples, StatesLieWhereFractionsSay) {
  const TemporaryFolder folder;
  torch::manual_seed(11);
  tests::on_every_rank(2, [&](World& world) {
    const auto bytes = examples::train_with_moments_on_disk(world, folder.path()).state_bytes;
    const auto on = [&](Tier tier) { return bytes[tier]; };
    EXPECT_GE(on(Tier::kDevice), (4 * 64 + 64 + 64 + 1) * 4 / 2);  // half of the parameters in fp32
    EXPECT_EQ(on(Tier::kHost), on(Tier::kDevice));                 // as many gradients
    EXPECT_GE(on(Tier::kDisk), 2 * on(Tier::kDevice));             // two moments, in whole pages
  });
}

TEST(ApiExamples, AveragesStatisticsAndMetricsOverRanks) {
  tests::on_every_rank(2, [](World& world) {
    torch::nn::Sequential model(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8));
    auto engine = attach(*model, world, {.stage = 3});
    model->forward(torch::randn({16, 4}) + 5 * world.rank()).sum().backward();
    engine.step();
    examples::average_buffers(world, *model);
    const torch::Tensor mean = model->named_buffers()["1.running_mean"];
    EXPECT_TRUE(torch::allclose(examples::mean_over_ranks(world, mean), mean));
    EXPECT_EQ(examples::mean_over_samples(world, world.rank() == 0 ? 2.0 : 10.0, world.rank() + 1), 4.0);
  });
}

TEST(ApiExamples, ATiedTensorCountsOnce) {
  tests::on_every_rank(2, [](World& world) {
    examples::Tied model;
    auto engine = attach(*model, world, {.stage = 3, .optimizer = AdamW{.lr = 1e-2}});
    EXPECT_EQ(engine.parameters().size(), 3);
    const auto tokens = torch::arange(10);
    torch::cross_entropy_loss(model->forward(tokens), tokens).backward();
    engine.step();
  });
}

TEST(ApiExamples, LoopContinuesFromNewestCheckpoint) {
  const TemporaryFolder folder;
  const auto losses_of = [&](const std::filesystem::path& path) {
    std::vector<double> losses;
    torch::manual_seed(11);
    tests::on_every_rank(2, [&](World& world) {
      const std::vector<double> mine = examples::train_or_go_on(world, path);
      if (world.rank() == 0) losses = mine;
    });
    return losses;
  };
  const auto path = std::filesystem::path(folder.path()) / "checkpoints";
  const std::vector<double> all = losses_of(path);
  ASSERT_EQ(all.size(), 60);
  EXPECT_TRUE(losses_of(path).empty());
  std::filesystem::remove_all(path / "step-00000060");
  EXPECT_EQ(losses_of(path), std::vector<double>(all.begin() + 40, all.end()));
}

TEST(ApiExamples, ReadsWeightsAndStatisticsFromFile) {
  const TemporaryFolder folder;
  const auto path = std::filesystem::path(folder.path()) / "model.safetensors";
  tests::on_every_rank(2, [&](World& world) {
    const auto make = [] { return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8)); };
    auto model = make(), other = make();
    model->named_buffers()["1.running_mean"].fill_(7);
    auto engine = attach(*model, world, {.stage = 3, .dtype = DType::kBFloat16});
    engine.export_weights(path);
    auto next = examples::attach_from(path, *other, world);
    EXPECT_TRUE(torch::equal(next.full_state("0.weight"),
                             engine.full_state("0.weight").to(torch::kBFloat16).to(torch::kFloat)));
    EXPECT_TRUE(torch::equal(other->named_buffers()["1.running_mean"], torch::full({8}, 7.0)));
  });
}

// The other examples are parts of this loop.
TEST(ApiExamples, AveragesEvaluatesAndExportsWhileTraining) {
  const TemporaryFolder folder;
  torch::manual_seed(11);
  tests::on_every_rank(2, [&](World& world) {
    torch::nn::Sequential model(torch::nn::Linear(4, 8), torch::nn::Dropout(0.5), torch::nn::Linear(8, 1));
    auto engine = attach(*model, world, {.stage = 3, .optimizer = AdamW{.lr = 0.1}, .dtype = DType::kFloat32});
    examples::WeightAverage average(0.5);
    const auto x = torch::ones({4, 4}), y = torch::ones({4, 1});
    const double before = examples::evaluate(model, {{x, y}, {x, y}});
    const torch::Tensor first = engine.state_shard("0.weight").values;
    average.update(engine);
    torch::mse_loss(model->forward(x), y).backward();
    engine.step();
    average.update(engine);
    EXPECT_TRUE(torch::allclose(average.shard("0.weight"), (first + engine.state_shard("0.weight").values) / 2));
    EXPECT_NE(examples::evaluate(model, {{x, y}}), before);
    examples::save_for_both(engine, folder.path());
    engine.load(std::filesystem::path(folder.path()) / "checkpoint");
  });
  for (const char* file : {"model.safetensors", "model_fp32.safetensors", "checkpoint"})
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(folder.path()) / file)) << file;
}

}  // namespace
}  // namespace zero
