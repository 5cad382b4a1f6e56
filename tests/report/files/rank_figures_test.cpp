#include "app/report/files/rank_figures.h"

#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace zero {
namespace {

using nlohmann::json;

json figures(const std::vector<RankFigures>& ranks) {
  return json::parse(ranks_json(ranks));
}

RankFigures sent(SentByCodec::Bytes group, SentByCodec::Bytes copies) {
  RankFigures rank{.steps = 2};
  rank.add({.group = group, .copies = copies});
  return rank;
}

TEST(RankFigures, SecondsAndBytesArePerStep) {
  const json ranks = figures({{.steps = 4, .waited_seconds = 0.5}, {.steps = 4, .waited_seconds = 6}});
  EXPECT_EQ(ranks, (json{{"steps", 4}, {"wait_seconds", {0.125, 1.5}}}));
}

TEST(RankFigures, BytesStandByReceiverAndCodec) {
  const json ranks = figures({sent({100, 0, 20, 0}, {0, 0, 0, 8}), sent({200, 0, 40, 0}, {0, 0, 0, 16})});
  EXPECT_EQ(ranks["sent_bytes"],
            (json{{"group", {{"none", {50, 100}}, {"int4", {10, 20}}}}, {"copies", {{"topk", {4, 8}}}}}));
}

TEST(RankFigures, AServerHasNoGradients) {
  const json ranks =
      figures({{.steps = 2, .sent_served = 80}, {.steps = 2, .gradients = 4, .sum_of_ages = 6, .most_age = 3}});
  EXPECT_EQ(ranks["gradients"], (json{0, 4}));
  EXPECT_EQ(ranks["age"], (json{nullptr, 1.5}));
  EXPECT_EQ(ranks["most_age"], (json{nullptr, 3}));
  EXPECT_EQ(ranks["sent_bytes"]["served"]["none"], (json{40, 0}));
}

TEST(RankFigures, WorkerWithoutPushHasNoMeans) {
  EXPECT_EQ(figures({{.steps = 1}, {.steps = 0}})["wait_seconds"], (json{0, nullptr}));
}

// `samples` is the later value, and `most_age` the largest.
TEST(RankFigures, CombinesTwoStepsFigures) {
  RankFigures sum{.steps = 1, .waited_seconds = 1, .samples = 6, .most_age = 5};
  sum += {.steps = 1, .waited_seconds = 2, .samples = 2, .most_age = 1};
  EXPECT_EQ(sum, (RankFigures{.steps = 2, .waited_seconds = 3, .samples = 2, .most_age = 5}));
}

TEST(RankFigures, ComeBackFromTheirValues) {
  const RankFigures some{.steps = 3, .samples = 2, .most_age = 7};
  EXPECT_EQ(rank_figures(to_values(some)), some);
}

}  // namespace
}  // namespace zero
