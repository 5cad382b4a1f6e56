#include "app/config/bits.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "app/config/load.h"
#include "app/config/options/option.h"
#include "app/config/rules/fit_to_world.h"

namespace zero {
namespace {

TEST(Bits, PlacementAndTransportKeepThem) {
  const Config config;
  for (const char* key : {"zero.stage", "zero.group", "zero.shards", "zero.disk", "zero.optimizer", "comm.transport",
                          "parallel.pipeline", "run.dir", "train.checkpoint_activations"})
    EXPECT_EQ(why_bits_change(key, config), "") << key;
}

TEST(Bits, KeysOfTheTrainingChangeThem) {
  const Config config;
  for (const char* key :
       {"train.seed", "train.accumulate", "train.dtype", "optimizer.lr", "schedule.warmup", "data.path", "model.width",
        "run.threads", "comm.reduce_wire", "zero.delayed_update", "sync.mode"})
    EXPECT_NE(why_bits_change(key, config), "") << key;
}

// A key that is renamed or removed would silently be refused.
TEST(Bits, EveryFreeKeyExists) {
  const Config config;
  std::size_t free = 0;
  for (const Option& option : options()) free += why_bits_change(option.name, config).empty() ? 1 : 0;
  EXPECT_EQ(free, 35U) << "a key was added to bits.cpp, or one of its keys has another name";
}

TEST(Bits, OtherKeysDecideWhetherGroupsMatter) {
  Config config;
  config.local.on = true;
  EXPECT_NE(why_bits_change("zero.group", config), "");
  Config coded;
  coded.engine.wire.reduce = WireCodec::kInt8;
  EXPECT_NE(why_bits_change("zero.group", coded), "");
  EXPECT_NE(why_bits_change("zero.shards", coded), "");
  Config linked;
  linked.engine.sums = RankSums::kLinked;
  EXPECT_NE(why_bits_change("zero.stage", linked), "");
}

TEST(Bits, LeavesFreeTheRanks) {
  Config config;
  EXPECT_NE(why_bits_change_with_ranks(config), "");
  EXPECT_NE(why_bits_change("train.accumulate", config), "");
  config.train.leaves = 4;
  EXPECT_EQ(why_bits_change_with_ranks(config), "");
  for (const char* const key : {"train.accumulate", "train.reduce", "run.min_ranks"})
    EXPECT_EQ(why_bits_change(key, config), "") << key;
  EXPECT_NE(why_bits_change("train.leaves", config), "");
}

// The last step has an evaluation of the whole validation split.
TEST(Bits, StepsCountForEverySchedule) {
  Config config;
  for (const LrKind kind : {LrKind::kConstant, LrKind::kInverseSqrt, LrKind::kCosine}) {
    config.schedule.kind = kind;
    EXPECT_NE(why_bits_change("train.steps", config), "") << static_cast<int>(kind);
  }
}

TEST(Bits, FittedConfigurationHasItsRanks) {
  LoadedConfig loaded;
  loaded.config.train.batch = 3;
  loaded.config.train.accumulate = 2;
  loaded.config.parallel.pipeline = 2;
  loaded.origins = {{"train.batch", "c.toml:1"}, {"train.accumulate", "c.toml:2"}};
  EXPECT_EQ(ranks_of_fitted(loaded.config), 0);
  fit_to_world(loaded, 4);
  EXPECT_EQ(ranks_of_fitted(loaded.config), 4);
}

}  // namespace
}  // namespace zero
