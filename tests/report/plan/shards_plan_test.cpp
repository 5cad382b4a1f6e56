#include "app/report/plan/shards_plan.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/plan/units/partition.h"

#include "app/report/plan/plan_table.h"
#include "tests/report/some_plan.h"
#include "tests/support/one_line.h"

namespace zero {
namespace {

TrainingPlan cut_plan(int world, Cut cut) {
  TrainingPlan plan{.model = "gpt2", .world = world, .options = {.shards = cut}};
  for (const char* block : {"h.0", "h.1", "h.2"}) {
    plan.specs.push_back({.name = std::string(block) + ".a", .shape = {1000, 300}});
    plan.specs.push_back({.name = std::string(block) + ".b", .shape = {500, 300}});
  }
  plan.units = units_of(plan.specs, world, plan.options);
  return plan;
}

TrainingPlan weighted_plan(std::vector<double> weights) {
  TrainingPlan plan = cut_plan(static_cast<int>(weights.size()), Cut::kWeighted);
  plan.options.shard_weights = std::move(weights);
  plan.units = units_of(plan.specs, plan.world, plan.options);
  return plan;
}

TEST(ShardsPlan, WeightsSayWhatEachRankOwns) {
  const TrainingPlan plan = weighted_plan({2, 1, 1});
  const ShardsPlan shards = shards_plan(plan);
  ASSERT_EQ(shards.by_rank.size(), 3U);
  EXPECT_EQ(shards.by_rank[0].numel, 3 * 225008) << "half of each unit, to a multiple of 64 bytes";
  EXPECT_EQ(shards.by_rank[0].numel + shards.by_rank[1].numel + shards.by_rank[2].numel, 3 * 450000);
  EXPECT_EQ(shards.room, shards.largest.numel) << "nothing is padded";
  EXPECT_GT(*shards.moved_by_joining, 0.25);
  const std::string table = one_line(plan_table(plan, kAllStages));
  EXPECT_NE(table.find("shards weighted: by weights 2, 1, 1 the ranks own 675"), std::string::npos) << table;
  EXPECT_NE(table.find("450,000 1.72 MiB 879 KiB"), std::string::npos) << "half of a unit: " << table;
  const auto json = nlohmann::json::parse(plan_json(plan, kAllStages))["shards"];
  EXPECT_EQ(json["by_rank"][2]["num_parameters"], shards.by_rank[2].numel);
  const std::string unmeasured = one_line(plan_table(cut_plan(3, Cut::kWeighted), kAllStages));
  EXPECT_NE(unmeasured.find("a run measures it"), std::string::npos) << unmeasured;
}

TEST(ShardsPlan, OwnersFollowTheirCut) {
  const ShardsPlan ranges = shards_plan(cut_plan(2, Cut::kRange)), whole = shards_plan(cut_plan(2, Cut::kWhole));
  EXPECT_LE(ranges.largest.numel, 3 * (225000 + 16)) << "half, to a multiple of 64 bytes";
  EXPECT_GE(ranges.smallest.numel, 3 * (225000 - 16));
  EXPECT_EQ(whole.smallest.numel + whole.largest.numel, 3 * 450000);
  EXPECT_EQ(whole.room, 3 * 300000) << "in each unit the largest parameter, and padding beside the other";
  EXPECT_EQ(whole.largest.bytes, whole.largest.numel * 16.0) << "parameter, gradient and two moments in fp32";
}

// A rank that joins moves its share with hashed blocks, and half of all elements with ranges.
TEST(ShardsPlan, JoiningMovesShareOrHalf) {
  const ShardsPlan shards = shards_plan(cut_plan(3, Cut::kHash));
  EXPECT_LE(*shards.moved_by_joining, 0.25 + 0.05);
  EXPECT_LE(*shards.moved_by_leaving, 1.0 / 3 + 0.05);
  EXPECT_NEAR(*shards.moved_in_ranges_by_joining, 0.5, 0.01);
  EXPECT_NEAR(*shards.moved_in_ranges_by_leaving, 0.5, 0.01);
}

// A group keeps its size, and a single rank cannot leave.
TEST(ShardsPlan, GroupsAndSingleRanksCannotShrink) {
  TrainingPlan plan = cut_plan(2, Cut::kHash);
  plan.world = 4;
  plan.options.group = 2;
  EXPECT_FALSE(shards_plan(plan).moved_by_joining.has_value());
  EXPECT_NE(one_line(plan_table(plan, kAllStages)).find("as whole copies of the model: no parameter gets"),
            std::string::npos);
  const ShardsPlan alone = shards_plan(cut_plan(1, Cut::kHash));
  EXPECT_TRUE(alone.moved_by_joining.has_value());
  EXPECT_FALSE(alone.moved_by_leaving.has_value());
}

TEST(ShardsPlan, TableAndJsonSayIt) {
  const TrainingPlan plan = cut_plan(3, Cut::kHash);
  const std::string table = one_line(plan_table(plan, kAllStages));
  for (const char* part : {"shards hash: a rank owns", "When a rank joins,", "(in equal ranges 50.0 %)", "leaves,"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  const auto json = nlohmann::json::parse(plan_json(plan, kAllStages))["shards"];
  EXPECT_EQ(json["cut"], "hash");
  EXPECT_EQ(json["largest"]["num_parameters"], shards_plan(plan).largest.numel);
  EXPECT_EQ(json["moved_by_joining"], *shards_plan(plan).moved_by_joining);
  EXPECT_EQ(plan_table(cut_plan(3, Cut::kRange), kAllStages).find("shards "), std::string::npos);
  const auto ranges = nlohmann::json::parse(plan_json(cut_plan(3, Cut::kRange), kAllStages))["shards"];
  EXPECT_NEAR(ranges["moved_by_joining"].get<double>(), 0.5, 0.01) << "the table leaves equal ranges out";
}

}  // namespace
}  // namespace zero
