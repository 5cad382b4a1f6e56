#include "app/config/rules/fit_to_world.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

LoadedConfig given(std::int64_t batch, std::int64_t accumulate, std::int64_t global_batch) {
  LoadedConfig loaded;
  if (batch != 0) {
    loaded.config.train.batch = batch;
    loaded.origins["train.batch"] = "c.toml:1";
  }
  if (accumulate != 0) {
    loaded.config.train.accumulate = accumulate;
    loaded.origins["train.accumulate"] = "c.toml:2";
  }
  if (global_batch != 0) {
    loaded.config.train.global_batch = global_batch;
    loaded.origins["train.global_batch"] = "c.toml:3";
  }
  return loaded;
}

TEST(FitToWorld, GlobalBatchDefaultsToTheProduct) {
  auto loaded = given(6, 2, 0);
  fit_to_world(loaded, 3);
  EXPECT_EQ(loaded.config.train.global_batch, 36);
}

// The group does not divide the ranks.
TEST(FitToWorld, UnevenGroupNamesItsOrigin) {
  auto loaded = given(6, 1, 0);
  loaded.config.engine.group = 3;
  loaded.origins["zero.group"] = "c.toml:9";
  const std::string message = message_of<ConfigError>([&] { fit_to_world(loaded, 4); });
  EXPECT_TRUE(message.starts_with("c.toml:9: zero.group = 3: 4 ranks cannot be divided into groups of this size"))
      << message;
  fit_to_world(loaded, 6);
}

// It divides the number of ranks that hold one copy of the model.
TEST(FitToWorld, SecondaryGroupDividesModelRanks) {
  auto loaded = given(6, 1, 0);
  loaded.config.engine.secondary_group = 2;
  loaded.origins["zero.secondary_group"] = "c.toml:7";
  for (const int world : {1, 2, 3})
    EXPECT_TRUE(
        message_of<ConfigError>([&] { fit_to_world(loaded, world); }).starts_with("c.toml:7: zero.secondary_group = 2"))
        << world;
  EXPECT_NO_THROW(fit_to_world(loaded, 4));
  loaded.config.engine.group = 2;
  EXPECT_TRUE(says(message_of<ConfigError>([&] { fit_to_world(loaded, 4); }), "2 ranks hold one copy of the model"));
}

TEST(FitToWorld, LocalStepsNeedSeveralCopies) {
  LoadedConfig loaded;
  loaded.config.local.on = true;
  EXPECT_NO_THROW(fit_to_world(loaded, 2)) << "one rank a copy";
  EXPECT_TRUE(says(message_of<ConfigError>([&] { fit_to_world(loaded, 1); }), "sync.mode = local"));
  loaded.config.engine.group = 2;
  EXPECT_TRUE(says(message_of<ConfigError>([&] { fit_to_world(loaded, 2); }), "on 2 ranks"));
}

TEST(FitToWorld, BatchIsDerivedWhenLeftOut) {
  auto loaded = given(0, 2, 48);
  fit_to_world(loaded, 4);
  EXPECT_EQ(loaded.config.train.batch, 6);
}

TEST(FitToWorld, AccumulateIsDerivedWhenLeftOut) {
  auto loaded = given(6, 0, 48);
  fit_to_world(loaded, 4);
  EXPECT_EQ(loaded.config.train.accumulate, 2);
}

TEST(FitToWorld, AContradictionNamesAllFourNumbers) {
  auto loaded = given(6, 1, 12);
  const std::string message = message_of<ConfigError>([&] { fit_to_world(loaded, 3); });
  EXPECT_TRUE(
      message.starts_with("c.toml:3: train.global_batch = 12: but train.batch 6 x train.accumulate 1 x world 3 = 18"))
      << message;
}

TEST(FitToWorld, SuggestsNeighboursThatDivide) {
  auto loaded = given(0, 1, 13);
  EXPECT_NE(message_of<ConfigError>([&] { fit_to_world(loaded, 4); }).find("use 12 or 16"), std::string::npos);
  auto small = given(0, 1, 3);
  EXPECT_NE(message_of<ConfigError>([&] { fit_to_world(small, 4); }).find("use 4 or more"), std::string::npos);
}

// A world that cannot keep it is refused.
TEST(FitToWorld, AnotherWorldKeepsTheGlobalBatch) {
  auto loaded = given(2, 1, 0);
  fit_to_world(loaded, 6);
  EXPECT_EQ(accumulate_in(3, loaded.config), 2);
  EXPECT_EQ(accumulate_in(2, loaded.config), 3);
  const std::string refusal = message_of<ConfigError>([&] { accumulate_in(4, loaded.config); });
  EXPECT_NE(refusal.find("no multiple of 8 = 2 (train.batch) x 4 (ranks)"), std::string::npos) << refusal;
}

// There is one share for each rank.
TEST(FitToWorld, NamedSharesSumToMicroBatch) {
  const auto fitted = [](const std::vector<std::int64_t>& shares, std::int64_t world) {
    auto loaded = given(4, 1, 0);
    loaded.config.train.share = {.kind = ShareKind::kGiven, .given = shares};
    loaded.origins["train.share"] = "c.toml:4";
    fit_to_world(loaded, world);
    return loaded.config.train;
  };
  EXPECT_EQ(most_samples(fitted({6, 2}, 2)), 6);
  const std::string refusal = message_of<ConfigError>([&] { fitted({6, 2}, 3); });
  EXPECT_TRUE(refusal.starts_with("c.toml:4: train.share = [6, 2]: 2 shares for 3 ranks\n")) << refusal;
  const std::string message = message_of<ConfigError>([&] { fitted({6, 3}, 2); });
  EXPECT_NE(message.find("they sum to 9\n"), std::string::npos) << message;
  EXPECT_NE(message.find("[4, 4]: they must sum to 8 = 4 (train.batch) x 2 (ranks)"), std::string::npos) << message;
}

// The shares must have room for all samples.
TEST(FitToWorld, MeasuredSharesHaveRoom) {
  auto loaded = given(4, 1, 0);
  loaded.config.train.share.kind = ShareKind::kMeasured;
  loaded.config.train.share.most = 3;
  const std::string message = message_of<ConfigError>([&] { fit_to_world(loaded, 2); });
  EXPECT_NE(message.find("train.share_most = 3: 2 ranks together take 8 samples"), std::string::npos) << message;
  loaded.config.train.share.most = 5;
  EXPECT_NO_THROW(fit_to_world(loaded, 2));
  EXPECT_EQ(most_samples(loaded.config.train), 5);
}

TEST(FitToWorld, AWorldOfNoneIsRefused) {
  auto loaded = given(0, 0, 0);
  EXPECT_NE(message_of<ConfigError>([&] { fit_to_world(loaded, 0); }), "");
}

TEST(FitToWorld, ProductHoldsAfterwards) {
  rc::check([] {
    const auto world = *rc::gen::inRange<std::int64_t>(1, 65);
    const auto batch = *rc::gen::inRange<std::int64_t>(1, 100);
    const auto accumulate = *rc::gen::inRange<std::int64_t>(1, 20);
    const auto left_out = *rc::gen::inRange(0, 3);
    const auto product = batch * accumulate * world;
    auto loaded = given(left_out == 0 ? 0 : batch, left_out == 1 ? 0 : accumulate, left_out == 2 ? 0 : product);
    if (left_out == 0) loaded.config.train.accumulate = accumulate;
    fit_to_world(loaded, world);
    const auto& train = loaded.config.train;
    RC_ASSERT(train.batch == batch && train.accumulate == accumulate && train.global_batch == product);
  });
}

TEST(SettleEpochs, StepsTakeEachSampleThatOften) {
  LoadedConfig loaded;
  loaded.config.train.epochs = 3;
  loaded.config.train.global_batch = 64;
  loaded.origins["train.epochs"] = "command line";
  settle_epochs(loaded, 1000);
  EXPECT_EQ(loaded.config.train.steps, 47) << "3,000 samples, the last step filled up";
  EXPECT_EQ(loaded.config.train.epochs, 0) << "steps replace epochs";
  EXPECT_EQ(loaded.config.schedule.warmup, 47) << "the default is shortened, as with given steps";
  EXPECT_EQ(loaded.origins.at("train.steps"), "command line");
}

TEST(SettleEpochs, StepsMustFitAnInteger) {
  LoadedConfig loaded;
  loaded.config.train.epochs = 2147483647;
  loaded.config.train.global_batch = 1;
  EXPECT_TRUE(says(message_of<ConfigError>([&] { settle_epochs(loaded, 1000); }), "train.epochs = 2147483647"));
}

TEST(SettleEpochs, RefusesWarmupLongerThanEpochs) {
  LoadedConfig loaded;
  loaded.config.train.epochs = 1;
  loaded.config.train.global_batch = 10;
  loaded.config.schedule.warmup = 20;
  loaded.origins["schedule.warmup"] = "c.toml:3";
  EXPECT_TRUE(says(message_of<ConfigError>([&] { settle_epochs(loaded, 100); }), "more than train.steps = 10"));
}

TEST(FitToWorld, OnlyWorkersTakeSamples) {
  LoadedConfig loaded;
  loaded.config.engine.sync.servers = 2;
  loaded.config.train.batch = 4;
  fit_to_world(loaded, 5);
  EXPECT_EQ(loaded.config.train.global_batch, 12);
  loaded.config.engine.sync.servers = 5;
  EXPECT_TRUE(says(message_of<ConfigError>([&] { fit_to_world(loaded, 5); }), "sync.servers = 5"));
}

TEST(FitToWorld, ServersAndWorkersFitTheRanks) {
  LoadedConfig loaded;
  loaded.config.engine.sync.servers = 8;
  EXPECT_NO_THROW(fit_to_world(loaded, 64));
  const std::string refusal = message_of<ConfigError>([&] { fit_to_world(loaded, 65); });
  EXPECT_TRUE(says(refusal, "sync.servers = 8: servers and workers make 65 ranks, more than a run can have"))
      << refusal;
  EXPECT_TRUE(says(refusal, "at most 64 ranks")) << refusal;
}

// One weight for each rank that holds one copy of the model.
TEST(FitToWorld, NamedWeightsMatchModelRanks) {
  const auto fitted = [](std::vector<double> weights, int group, std::int64_t world) {
    LoadedConfig loaded;
    loaded.config.engine.shards = Cut::kWeighted;
    loaded.config.engine.shard_weights = std::move(weights);
    loaded.config.engine.group = group;
    loaded.origins["zero.shard_weights"] = "c.toml:4";
    fit_to_world(loaded, world);
  };
  EXPECT_NO_THROW(fitted({2, 1, 1}, 0, 3));
  EXPECT_NO_THROW(fitted({2, 1}, 2, 6)) << "the same in every copy";
  EXPECT_NO_THROW(fitted({}, 0, 3));
  LoadedConfig served;
  served.config.engine.sync.servers = 2;
  served.config.engine.shards = Cut::kWeighted;
  served.config.engine.shard_weights = {2, 1};
  EXPECT_NO_THROW(fit_to_world(served, 5)) << "one for each server";
  served.config.engine.shard_weights = {2, 1, 1, 1, 1};
  EXPECT_TRUE(says(message_of<ConfigError>([&] { fit_to_world(served, 5); }), "5 weights for 2 servers"));
  const std::string refusal = message_of<ConfigError>([&] { fitted({2, 1}, 0, 3); });
  EXPECT_TRUE(refusal.starts_with("c.toml:4: zero.shard_weights = [2, 1]: 2 weights for 3 ranks\n")) << refusal;
}

}  // namespace
}  // namespace zero
