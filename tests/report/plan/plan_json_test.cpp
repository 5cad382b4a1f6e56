#include <array>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/report/plan/plan_table.h"
#include "tests/report/some_plan.h"

namespace zero {
namespace {

using nlohmann::json;

TEST(PlanJson, FormulasAreThePapers) {
  const auto plan = json::parse(plan_json(some_plan(4, 3), kAllStages));
  constexpr double p = kPlanParameters;
  EXPECT_EQ(plan["num_parameters"], kPlanParameters);
  EXPECT_DOUBLE_EQ(plan["stages"][0]["formula"]["state_bytes"], 16 * p);
  EXPECT_DOUBLE_EQ(plan["stages"][1]["formula"]["state_bytes"], 8 * p + 8 * p / 4);
  EXPECT_DOUBLE_EQ(plan["stages"][2]["formula"]["state_bytes"], 4 * p + 12 * p / 4);
  EXPECT_DOUBLE_EQ(plan["stages"][3]["formula"]["state_bytes"], 16 * p / 4);
  EXPECT_DOUBLE_EQ(plan["stages"][2]["formula"]["sent_bytes"], 4 * 2 * p * 3 / 4);
  EXPECT_DOUBLE_EQ(plan["stages"][3]["formula"]["sent_bytes"], 4 * 3 * p * 3 / 4);
}

TEST(PlanJson, Bfloat16AddsMasterAndHalvesTraffic) {
  const auto plan = json::parse(plan_json(some_plan(4, 0, DType::kBFloat16), std::array{0}));
  constexpr double p = kPlanParameters;
  EXPECT_DOUBLE_EQ(plan["stages"][0]["formula"]["state_bytes"], 16 * p);
  // Four bytes an element, and the gaps between slices of 64 bytes.
  EXPECT_GE(plan["stages"][0]["memory_bytes"]["master"], 4 * kPlanParameters);
  EXPECT_LT(plan["stages"][0]["memory_bytes"]["master"], 4 * kPlanParameters * 1.01);
  EXPECT_DOUBLE_EQ(plan["stages"][0]["formula"]["sent_bytes"], 2 * 2 * p * 3 / 4);
}

TEST(PlanJson, HeldBytesMatchFormulaWithoutPadding) {
  // All units of the example divide evenly over four ranks.
  const auto plan = json::parse(plan_json(some_plan(4, 3), kAllStages));
  for (const auto& stage : plan["stages"]) {
    EXPECT_DOUBLE_EQ(stage["memory_bytes"]["total"].get<double>(), stage["formula"]["state_bytes"].get<double>())
        << stage["stage"];
    EXPECT_DOUBLE_EQ(stage["sent_bytes"].get<double>(), stage["formula"]["sent_bytes"].get<double>()) << stage["stage"];
    EXPECT_EQ(stage["received_bytes"], stage["sent_bytes"]);
  }
}

// The plan counts the ranks of one copy, and the bytes between copies.
TEST(PlanJson, CopiesCountOneCopyAndCrossing) {
  TrainingPlan grouped = some_plan(8, 3, DType::kBFloat16);
  grouped.options.group = 4;
  const auto plan = json::parse(plan_json(grouped, kAllStages));
  const auto of_one = json::parse(plan_json(some_plan(4, 3, DType::kBFloat16), kAllStages));
  EXPECT_EQ(plan["shard_ranks"], 4);
  EXPECT_EQ(plan["copies"], 2);
  constexpr double p = kPlanParameters;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const auto &seen = plan["stages"][stage], &one = of_one["stages"][stage];
    EXPECT_EQ(seen["memory_bytes"], one["memory_bytes"]);
    EXPECT_DOUBLE_EQ(seen["between_copies"]["formula"]["sent_bytes"], 4 * 2 * (p / 4) / 2);
    const auto crossing = seen["between_copies"]["sent_bytes"].get<std::int64_t>();
    EXPECT_GE(static_cast<double>(crossing), 4 * p / 4);
    EXPECT_EQ(seen["sent_bytes"], one["sent_bytes"].get<std::int64_t>() + crossing);
    EXPECT_FALSE(one.contains("between_copies"));
  }
}

TEST(PlanJson, UnitsAddUpToTheModel) {
  const auto plan = json::parse(plan_json(some_plan(3, 2), std::array{2}));
  std::int64_t sum = 0;
  for (const auto& unit : plan["units"]) {
    sum += unit["num_parameters"].get<std::int64_t>();
    EXPECT_EQ(unit["gathered_bytes"], 3 * unit["shard_bytes"].get<std::int64_t>());
  }
  EXPECT_EQ(sum, kPlanParameters);
  EXPECT_EQ(plan["units"].size(), 5U);
}

// Bytes of an outer step between copies that train apart.
TEST(PlanJson, ShowsOuterStepBytes) {
  TrainingPlan plan = some_plan(4, 2);
  plan.options.group = 2;
  plan.options.local = LocalSteps{.steps = 20};
  const json apart = json::parse(plan_json(plan, kAllStages));
  EXPECT_EQ(apart["local_steps"], 20);
  for (const json& stage : apart["stages"]) {
    EXPECT_EQ(stage["between_copies"]["sent_bytes"], 0);
    const json& outer = stage["outer_step"];
    EXPECT_DOUBLE_EQ(outer["formula"]["sent_between_copies"], 8.0 * kPlanParameters / 2 / 2);
    EXPECT_GE(outer["sent_between_copies"], outer["formula"]["sent_between_copies"]);
    EXPECT_EQ(outer["sent_bytes"] == outer["sent_between_copies"], stage["stage"] == 3);
  }
}

TEST(PlanJson, CountsCodedBytesAndNamesCodecs) {
  TrainingPlan plan = some_plan(2, 3);
  EXPECT_FALSE(json::parse(plan_json(plan, kAllStages)).contains("wire"));
  plan.options.wire = {.gather = WireCodec::kInt4, .reduce = WireCodec::kInt8};
  const json coded = json::parse(plan_json(plan, kAllStages));
  EXPECT_EQ(coded["wire"], (json{{"gather", "int4"}, {"reduce", "int8"}, {"outer", "none"}}));
  constexpr double kInt8 = 1 + 4 / 256.0, kInt4 = 0.5 + 4 / 256.0, kSent = kPlanParameters / 2.0;
  EXPECT_DOUBLE_EQ(coded["stages"][1]["formula"]["sent_bytes"], kSent * (kInt8 + 4))
      << "stage 1 sends parameters without a code";
  EXPECT_DOUBLE_EQ(coded["stages"][3]["formula"]["sent_bytes"], kSent * (kInt8 + 2 * kInt4));
  for (const json& stage : coded["stages"]) EXPECT_GE(stage["sent_bytes"], stage["formula"]["sent_bytes"]);
}

// Bytes of an outer step.
TEST(PlanJson, CountsLargestElementsAndResidual) {
  TrainingPlan plan = some_plan(4, 3);
  plan.options.group = 2;
  plan.options.local = LocalSteps{};
  const json dense = json::parse(plan_json(plan, kAllStages));
  plan.options.wire = {.outer_topk = 0.1};
  const json topk = json::parse(plan_json(plan, kAllStages));
  EXPECT_EQ(topk["wire"], (json{{"gather", "none"}, {"reduce", "none"}, {"outer", "topk"}, {"outer_topk", 0.1}}));
  const json& outer = topk["stages"][3]["outer_step"];
  EXPECT_DOUBLE_EQ(outer["formula"]["sent_between_copies"], 102 * 6 / 1024.0 * kPlanParameters / 2);
  EXPECT_NEAR(outer["sent_between_copies"].get<double>(), outer["formula"]["sent_between_copies"].get<double>(), 6 * 4)
      << "a block that is shorter rounds its share by itself: by an element of each unit at most";
  const auto moments = [](const json& plan_of) { return plan_of["stages"][3]["memory_bytes"]["moment"].get<double>(); };
  EXPECT_EQ(moments(topk), moments(dense) * 5 / 4) << "Adam's two, momentum and anchor, and now a residual";
}

// A rule with several passes.
TEST(PlanJson, CountsStatesOfEachPass) {
  const auto parsed = [](const TrainingPlan& plan) { return json::parse(plan_json(plan, std::array{3})); };
  const auto placed = [](OptimizerOptions rule, DType dtype, const TierFractions& fractions) {
    TrainingPlan plan = some_plan(2, 3, dtype);
    plan.options.optimizer = std::move(rule);
    Placement placement = placement_of(plan);
    spread_over_tiers(placement, plan.units, plan.world, {.optimizer = fractions});
    plan.tiers = placement.tiers;
    return plan;
  };
  const TierFractions on_host{.host = 1}, on_disk{.disk = 1};
  EXPECT_FALSE(parsed(placed(AdamWOptions{}, DType::kFloat32, on_disk)).contains("passes")) << "AdamW makes one pass";
  const auto bytes_of_each = [](std::int64_t host, std::int64_t disk) { return json{{"host", host}, {"disk", disk}}; };
  const json moments = parsed(placed(LambOptions{}, DType::kFloat32, on_host));
  EXPECT_EQ(moments["passes"], (json{{"num_passes", 2},
                                     {"factors_first", false},
                                     {"states_bytes_of_each", bytes_of_each(moments["tiers"]["host"]["moment"], 0)}}));
  const json masters = parsed(placed(LambOptions{}, DType::kBFloat16, on_disk));
  const auto of_disk = [&](const char* state) { return masters["tiers"]["disk"][state].get<std::int64_t>(); };
  EXPECT_GT(of_disk("master"), 0);
  EXPECT_EQ(masters["passes"]["states_bytes_of_each"], bytes_of_each(0, of_disk("master") + of_disk("moment")));
  EXPECT_EQ(parsed(placed(LambOptions{}, DType::kFloat32, {}))["passes"]["states_bytes_of_each"], bytes_of_each(0, 0));
}

// Updates read neither states of outer steps nor frozen parameters.
TEST(PlanJson, PassesLeaveOutUnreadBytes) {
  const auto on_host = [](TrainingPlan plan) {
    plan.options.optimizer = LambOptions{};
    Placement placement = placement_of(plan);
    spread_over_tiers(placement, plan.units, mesh_of(plan).shard, {.parameter = {.host = 1}, .optimizer = {.host = 1}});
    plan.tiers = placement.tiers;
    return json::parse(plan_json(plan, std::array{3}))["passes"]["states_bytes_of_each"]["host"].get<std::int64_t>();
  };
  const std::int64_t whole = on_host(some_plan(2, 3));
  TrainingPlan apart = some_plan(4, 3);
  apart.options.group = 2;
  apart.options.local = LocalSteps{};
  EXPECT_EQ(on_host(apart), whole);
  TrainingPlan frozen = some_plan(2, 3);
  frozen.specs.front().trainable = false;
  frozen.units = make_units(frozen.specs, {});
  EXPECT_EQ(on_host(frozen), whole - 256 * 64 / 2 * (4 + 8)) << "a parameter and two moments";
}

// A machine has servers and workers, which hold different bytes.
TEST(PlanJson, ServersHaveNoFit) {
  TrainingPlan plan = some_plan(1, 3);
  plan.machine = {.ranks = 3, .free_bytes = 1 << 30, .batch = 1};
  EXPECT_TRUE(json::parse(plan_json(plan, kAllStages)).contains("memory"));
  plan.options.sync.servers = 1;
  plan.workers = 2;
  const json served = json::parse(plan_json(plan, kAllStages));
  EXPECT_FALSE(served.contains("memory"));
  EXPECT_TRUE(served.contains("served"));
}

}  // namespace
}  // namespace zero
