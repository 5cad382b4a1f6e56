#include "app/report/page/rank_table.h"

#include <cmath>

#include <gtest/gtest.h>

namespace zero::page {
namespace {

using Json = nlohmann::json;

TEST(RankTable, MeansWeightLinesBySteps) {
  RankTable table;
  table.add(Json{{"steps", 1}, {"wait_seconds", {4.0, 0.0}}, {"samples", {4, 4}}});
  table.add(Json{{"steps", 3}, {"wait_seconds", {0.0, 4.0}}, {"samples", {6, 2}}});
  const auto columns = table.columns();
  ASSERT_EQ(columns.size(), 2U);
  EXPECT_EQ(columns[0].unit, "seconds");
  EXPECT_EQ(columns[0].values, (std::vector<double>{1, 3}));
  EXPECT_EQ(columns[1].values, (std::vector<double>{6, 2})) << "the last";
}

TEST(RankTable, AgesWeightLinesByGradients) {
  RankTable table;
  table.add(Json{{"steps", 1}, {"gradients", {0, 1}}, {"age", {nullptr, 4.0}}, {"most_age", {nullptr, 4}}});
  table.add(Json{{"steps", 1}, {"gradients", {0, 3}}, {"age", {nullptr, 0.0}}, {"most_age", {nullptr, 0}}});
  const auto columns = table.columns();
  ASSERT_EQ(columns.size(), 3U);
  EXPECT_EQ(columns[0].values, (std::vector<double>{0, 4}));
  EXPECT_EQ(columns[1].values[1], 1);
  EXPECT_TRUE(std::isnan(columns[1].values[0])) << "a server";
  EXPECT_EQ(columns[2].values[1], 4);
}

TEST(RankTable, ReceiversAndCodecsHaveColumns) {
  RankTable table;
  table.add(Json{{"steps", 1}, {"sent_bytes", {{"group", {{"int8", {8, 9}}}}, {"copies", {{"none", {40, 41}}}}}}});
  const auto columns = table.columns();
  ASSERT_EQ(columns.size(), 2U);
  EXPECT_EQ(columns[0].label, "sent a step in its group, int8");
  EXPECT_EQ(columns[1].label, "sent a step to other copies");
  EXPECT_EQ(columns[1].values, (std::vector<double>{40, 41}));
}

TEST(RankTable, LeavesOutValuesOfOtherForm) {
  RankTable table;
  for (const char* const line :
       {"3", "[1]", "{}", R"({"steps": "x", "wait_seconds": [1]})", R"({"steps": -1, "wait_seconds": [1]})",
        R"({"steps": 1, "wait_seconds": 7, "sent_bytes": [3]})", R"({"steps": 1, "age": [2], "gradients": "x"})"})
    table.add(Json::parse(line));
  for (const RankColumn& column : table.columns())
    for (const double value : column.values) EXPECT_TRUE(std::isnan(value)) << column.label;
}

TEST(RankTable, HasABound) {
  RankTable table;
  table.add(Json{{"steps", 1}, {"wait_seconds", std::vector<double>(RankTable::kMostRanks + 5, 1.0)}});
  EXPECT_EQ(table.num_ranks(), RankTable::kMostRanks);
}

}  // namespace
}  // namespace zero::page
