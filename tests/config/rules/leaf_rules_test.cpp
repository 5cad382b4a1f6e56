#include "app/config/rules/leaf_rules.h"

#include <functional>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/config/load.h"
#include "app/config/rules/fit_to_world.h"
#include "app/config/rules/rules.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

LoadedConfig with_leaves(std::int64_t leaves, std::int64_t global_batch = 0) {
  LoadedConfig loaded;
  loaded.config.train.leaves = leaves;
  loaded.config.train.batch = 3;
  if (global_batch == 0) return loaded;
  loaded.config.train.global_batch = global_batch;
  loaded.origins["train.global_batch"] = "c.toml:3";
  return loaded;
}

TEST(LeafRules, BatchAndAccumulateFollow) {
  LoadedConfig loaded = with_leaves(8);
  fit_to_world(loaded, 2);
  EXPECT_EQ(loaded.config.train.global_batch, 24);
  EXPECT_EQ(loaded.config.train.accumulate, 4);
  EXPECT_EQ(samples_per_step(loaded.config.train, 2), 24);
  LoadedConfig derived = with_leaves(4, 8);
  fit_to_world(derived, 4);
  EXPECT_EQ(derived.config.train.batch, 2);
  EXPECT_EQ(derived.config.train.accumulate, 1);
}

// Three ranks compute 4, 2 and 2 leaves.
TEST(LeafRules, FewerRanksKeepTheSamples) {
  LoadedConfig loaded = with_leaves(8);
  fit_to_world(loaded, 4);
  EXPECT_EQ(accumulate_in(3, loaded.config), 4);
  EXPECT_EQ(accumulate_in(1, loaded.config), 8);
  EXPECT_EQ(samples_per_step(loaded.config.train, 3), 24);
}

TEST(LeafRules, WrongNumbersNameARemedy) {
  LoadedConfig odd = with_leaves(5, 12);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { fit_to_world(odd, 1); }),
                   "train.leaves = 5: does not divide train.global_batch = 12\n  use 1, 2, 3, 4, 6, 12"));
  LoadedConfig given = with_leaves(8);
  given.config.train.accumulate = 2;
  given.origins["train.accumulate"] = "c.toml:4";
  EXPECT_TRUE(says(message_of<ConfigError>([&] { fit_to_world(given, 2); }), "c.toml:4: train.accumulate = 2"));
  LoadedConfig each = with_leaves(8);
  each.config.engine.reduce = Reduce::kEach;
  each.origins["train.reduce"] = "c.toml:5";
  EXPECT_TRUE(says(message_of<ConfigError>([&] { fit_to_world(each, 3); }), "train.leaves = 8"));
}

// The lines of a pipeline share the leaves, as ranks do without one.
TEST(LeafRules, LinesShareLeaves) {
  LoadedConfig loaded = with_leaves(8);
  loaded.config.parallel.pipeline = 2;
  check_leaves(loaded);
  fit_to_world(loaded, 4);
  EXPECT_EQ(loaded.config.train.accumulate, 4);
  EXPECT_EQ(accumulate_in(2, loaded.config), 8);
}

TEST(LeafRules, KeysOfRanksAreRefused) {
  const auto refusal = [](const std::function<void(Config&)>& change) {
    LoadedConfig loaded = with_leaves(4);
    change(loaded.config);
    return message_of<ConfigError>([&] { check_leaves(loaded); });
  };
  EXPECT_TRUE(says(refusal([](Config& c) { c.train.share.kind = ShareKind::kMeasured; }), "(train.share)"));
  EXPECT_TRUE(says(refusal([](Config& c) { c.train.gradient_noise = 1; }), "(train.gradient_noise)"));
  EXPECT_TRUE(says(refusal([](Config& c) { c.engine.delayed_update = true; }), "(zero.delayed_update)"));
  EXPECT_TRUE(says(refusal([](Config& c) { c.engine.sync.servers = 1; }), "(sync.servers)"));
  EXPECT_TRUE(says(refusal([](Config& c) { c.local.on = true; }), "(sync.mode)"));
  EXPECT_TRUE(says(refusal([](Config& c) { c.engine.wire.reduce = WireCodec::kInt8; }), "comm.reduce_wire"));
}

}  // namespace
}  // namespace zero
