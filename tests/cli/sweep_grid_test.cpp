#include "app/cli/sweep_grid.h"

#include <set>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero::cli {
namespace {

std::vector<SweepPoint> points(const std::vector<std::string>& axes) {
  return SweepGrid(axes).points();
}

std::string refusal(const std::vector<std::string>& axes) {
  return message_of<ConfigError>([&] { points(axes); });
}

// Each combination is one run.
TEST(SweepGrid, LastAxisChangesFirst) {
  const auto grid = points({"zero.stage=0,3", "ranks=1,2"});
  ASSERT_EQ(grid.size(), 4U);
  EXPECT_EQ(grid[0].text, "zero.stage=0 ranks=1");
  EXPECT_EQ(grid[1].name, "stage-0_ranks-2");
  EXPECT_EQ(grid[1].ranks, 2);
  EXPECT_EQ(grid[3].settings, (std::vector<std::pair<std::string, std::string>>{{"zero.stage", "3"}}));
}

TEST(SweepGrid, ValuesWithCommasStandInBrackets) {
  const auto grid = points({"optimizer.betas=[[0.9, 0.95], [0.9, 0.999]]"});
  ASSERT_EQ(grid.size(), 2U);
  EXPECT_EQ(grid[1].settings[0].second, "[0.9, 0.999]");
  EXPECT_EQ(grid[1].name, "betas-0.9-0.999");
  EXPECT_EQ(points({"optimizer.name=[\"adamw\", \"lamb\"]"})[1].settings[0].second, "lamb");
}

TEST(SweepGrid, NamesAreUniqueFolders) {
  std::set<std::string> names;
  for (const SweepPoint& point : points({"data.path=[\"/a/b\", \"a b\", \"../a/b\"]"})) {
    EXPECT_EQ(point.name.find('/'), std::string::npos) << point.name;
    EXPECT_TRUE(names.insert(point.name).second) << point.name;
  }
}

TEST(SweepGrid, EmptyValueHasAName) {
  EXPECT_EQ(points({"zero.optimizer=[{}, {disk = 1}]"})[0].name, "optimizer-none");
  EXPECT_EQ(points({"zero.optimizer=[{}, {disk = 1}]"})[1].name, "optimizer-disk-1");
}

TEST(SweepGrid, WhatIsNoAxisIsRefused) {
  EXPECT_TRUE(says(refusal({"zero.stage"}), "not of the form KEY=VALUE,VALUE"));
  EXPECT_TRUE(says(refusal({"zero.stage=[0, 3"}), "--over = zero.stage=[0, 3: not a list in brackets"));
  EXPECT_TRUE(says(refusal({"zero.stage=[]"}), "a value is missing"));
  EXPECT_TRUE(says(refusal({"zero.stgae=1"}), "zero.stage"));
  EXPECT_TRUE(says(refusal({"zero.stage=1,"}), "a value is missing"));
  EXPECT_TRUE(says(refusal({"zero.stage=1", "zero.stage=2"}), "a --over already"));
  EXPECT_TRUE(says(refusal({"ranks=0"}), "not a number of ranks"));
  EXPECT_TRUE(
      says(refusal({"ranks=1,2000"}), "ranks=2000: not a number of ranks for one machine\n  allowed: 1 to 1024"));
  EXPECT_TRUE(says(refusal({"run.dir=a,b"}), "a folder of its own"));
  std::string many = "train.seed=0";
  for (int seed = 1; seed <= 1000; ++seed) many += "," + std::to_string(seed);
  EXPECT_TRUE(says(refusal({many}), "1001 runs"));
}

}  // namespace
}  // namespace zero::cli
