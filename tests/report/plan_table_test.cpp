#include "zero/report/plan_table.h"

#include <array>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/bytes.h"
#include "zero/plan/tier_split.h"
#include "zero/report/wrapped.h"

#include "tests/one_line.h"

namespace zero {
namespace {

using nlohmann::json;

TrainingPlan some_plan(int world, int stage, DType dtype = DType::kFloat32) {
  TrainingPlan plan{.model = "gpt2", .world = world, .options = {.stage = stage}};
  plan.specs.push_back({.name = "wte.weight", .shape = {256, 64}, .dtype = dtype, .own_unit = true});
  for (const char* block : {"h.0", "h.1", "h.2"})
    plan.specs.push_back({.name = std::string(block) + ".weight", .shape = {64, 64}, .dtype = dtype});
  plan.specs.push_back({.name = "ln_f.weight", .shape = {64}, .dtype = dtype});
  plan.units = make_units(plan.specs, {});
  return plan;
}

constexpr std::int64_t kParameters = 256 * 64 + 3 * 64 * 64 + 64;
constexpr std::array kAll{0, 1, 2, 3};

TEST(PlanTable, RepeatedBlocksAreOneLine) {
  const auto table = plan_table(some_plan(2, 3), std::array{3});
  EXPECT_NE(table.find("h.0-2 (3 x)"), std::string::npos) << table;
  EXPECT_EQ(table.find("h.1"), std::string::npos);
  EXPECT_NE(table.find("wte.weight"), std::string::npos);
  EXPECT_NE(table.find("28,736 parameters, stage 3 on 2 ranks"), std::string::npos) << table;
}

TEST(PlanTable, ShowsTheStagesAskedForAndMarksTheOwn) {
  const auto all = plan_table(some_plan(4, 1), kAll);
  for (const char* row : {"\n stage 0", "\n>stage 1", "\n stage 2", "\n stage 3"})
    EXPECT_NE(all.find(row), std::string::npos) << row;
  const auto one = plan_table(some_plan(4, 1), std::array{1});
  EXPECT_EQ(one.find("stage 3 "), std::string::npos);
  EXPECT_EQ(one.find('>'), std::string::npos);
}

TEST(PlanTable, FormulasAreThePapers) {
  const auto plan = json::parse(plan_json(some_plan(4, 3), kAll));
  constexpr double p = kParameters;
  EXPECT_EQ(plan["num_parameters"], kParameters);
  EXPECT_DOUBLE_EQ(plan["stages"][0]["formula"]["state_bytes"], 16 * p);
  EXPECT_DOUBLE_EQ(plan["stages"][1]["formula"]["state_bytes"], 8 * p + 8 * p / 4);
  EXPECT_DOUBLE_EQ(plan["stages"][2]["formula"]["state_bytes"], 4 * p + 12 * p / 4);
  EXPECT_DOUBLE_EQ(plan["stages"][3]["formula"]["state_bytes"], 16 * p / 4);
  EXPECT_DOUBLE_EQ(plan["stages"][2]["formula"]["sent_bytes"], 4 * 2 * p * 3 / 4);
  EXPECT_DOUBLE_EQ(plan["stages"][3]["formula"]["sent_bytes"], 4 * 3 * p * 3 / 4);
}

TEST(PlanTable, Bfloat16HasAMasterAndHalfTheWire) {
  const auto plan = json::parse(plan_json(some_plan(4, 0, DType::kBFloat16), std::array{0}));
  constexpr double p = kParameters;
  EXPECT_DOUBLE_EQ(plan["stages"][0]["formula"]["state_bytes"], 16 * p);
  // Four bytes an element, and what 64-byte slices leave between them.
  EXPECT_GE(plan["stages"][0]["memory_bytes"]["master"], 4 * kParameters);
  EXPECT_LT(plan["stages"][0]["memory_bytes"]["master"], 4 * kParameters * 1.01);
  EXPECT_DOUBLE_EQ(plan["stages"][0]["formula"]["sent_bytes"], 2 * 2 * p * 3 / 4);
}

TEST(PlanTable, WhatIsHeldIsTheFormulaWherePaddingIsNone) {
  // Every unit of the example divides evenly over four ranks but ln_f, whose 64 elements do too.
  const auto plan = json::parse(plan_json(some_plan(4, 3), kAll));
  for (const auto& stage : plan["stages"]) {
    EXPECT_DOUBLE_EQ(stage["memory_bytes"]["total"].get<double>(), stage["formula"]["state_bytes"].get<double>())
        << stage["stage"];
    EXPECT_DOUBLE_EQ(stage["sent_bytes"].get<double>(), stage["formula"]["sent_bytes"].get<double>()) << stage["stage"];
    EXPECT_EQ(stage["received_bytes"], stage["sent_bytes"]);
  }
}

TEST(PlanTable, SeveralMicroBatchesSendMoreAndAWayToSendLessIsNamed) {
  TrainingPlan plan = some_plan(4, 1);
  plan.options.accumulate = 3;
  constexpr std::int64_t kPass = 4 * kParameters / 4 * 3;  // P(N-1)/N, in bytes
  const auto sent = [&](const TrainingPlan& of) { return json::parse(plan_json(of, kAll))["stages"][1]["sent_bytes"]; };
  EXPECT_EQ(sent(plan), 4 * kPass);
  const std::string row = "train.reduce = \"last\" stages 0 and 1 send " + format_bytes(2 * kPass) + " instead";
  EXPECT_NE(one_line(plan_table(plan, kAll)).find(row), std::string::npos) << plan_table(plan, kAll);
  EXPECT_NE(one_line(plan_table(plan, std::array{1})).find(row), std::string::npos);
  EXPECT_EQ(plan_table(plan, std::array{3}).find("train.reduce"), std::string::npos) << "it would hold more there";
  EXPECT_EQ(plan_table(some_plan(4, 1), kAll).find("train.reduce"), std::string::npos) << "one micro-batch";
  plan.options.reduce = Reduce::kLast;
  EXPECT_EQ(sent(plan), 2 * kPass);
  EXPECT_EQ(plan_table(plan, kAll).find("train.reduce"), std::string::npos) << "it is asked for already";
}

TEST(PlanTable, UnitsAddUpToTheModel) {
  const auto plan = json::parse(plan_json(some_plan(3, 2), std::array{2}));
  std::int64_t sum = 0;
  for (const auto& unit : plan["units"]) {
    sum += unit["num_parameters"].get<std::int64_t>();
    EXPECT_EQ(unit["gathered_bytes"], 3 * unit["shard_bytes"].get<std::int64_t>());
  }
  EXPECT_EQ(sum, kParameters);
  EXPECT_EQ(plan["units"].size(), 5U);
}

TEST(PlanTable, FrozenUnitsAreNamedAndCostNoState) {
  auto plan = some_plan(2, 1);
  plan.specs[0].trainable = false;
  plan.units = make_units(plan.specs, {});
  EXPECT_NE(plan_table(plan, std::array{1}).find("frozen"), std::string::npos);
  const auto cost = json::parse(plan_json(plan, std::array{1}));
  EXPECT_EQ(cost["stages"][0]["memory_bytes"]["gradient"], 4 * (kParameters - 256 * 64));
}

TEST(PlanTable, APredictionSaysWhereItsComputationIsFromAndWhatItLacks) {
  TrainingPlan plan = some_plan(2, 3);
  EXPECT_EQ(plan_table(plan, kAll).find("predicted"), std::string::npos) << "nobody asked";
  EXPECT_FALSE(json::parse(plan_json(plan, kAll)).contains("predicted"));
  plan.computation = estimated_computation({.flops = 6e9, .flops_per_second = 1.5e12});
  plan.predicted.emplace();
  plan.predicted->busy[0][0] = plan.computation.step.forward_seconds;
  plan.without_disk = "which may hold too little to be probed";
  const auto table = one_line(plan_table(plan, kAll));
  for (const char* part :
       {"predicted forward 1.3 ms (compute)", "bound by compute; without the disk, which may hold too little",
        "computation estimated: 6.0 GFLOP a step at 1.5 TFLOP/s"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  const auto predicted = json::parse(plan_json(plan, kAll))["predicted"];
  EXPECT_EQ(predicted["computation"]["flops_per_step"], 6e9);
  EXPECT_EQ(predicted["counts_disk"], false);
  EXPECT_NE(table.find("communication is left out: what it takes to send 168 KiB a rank and step"), std::string::npos)
      << table;
  plan.computation = estimated_computation({.flops = 6e9, .flops_per_second = 1.5e12, .crowd = 3});
  EXPECT_NE(one_line(plan_table(plan, kAll)).find("probed here, 3 ranks to a core"), std::string::npos);
  plan.computation.from = ComputationFrom::kRun;
  plan.computation.world = plan.world;
  EXPECT_NE(plan_table(plan, kAll).find("as the run of --profile had it\n"), std::string::npos);
  plan.computation.world = 7;
  plan.computation.scale = 1.5;
  EXPECT_NE(one_line(plan_table(plan, kAll)).find("had it on 7 ranks, times 1.50 for the samples of a rank comm"),
            std::string::npos)
      << plan_table(plan, kAll);
  EXPECT_EQ(json::parse(plan_json(plan, kAll))["predicted"]["computation"]["scale"], 1.5);
}

TEST(PlanTable, WhatIsBesideTheStatesIsSaid) {
  TrainingPlan plan = some_plan(2, 3);
  EXPECT_EQ(plan_table(plan, kAll).find("beside them"), std::string::npos) << "nobody asked";
  plan.beside = {.device = 3 << 20, .host = 24 << 20};
  EXPECT_NE(plan_table(plan, kAll).find("beside them at most 3.00 MiB on the device"), std::string::npos);
  EXPECT_EQ(json::parse(plan_json(plan, kAll))["beside_states_bytes"], (json{{"device", 3 << 20}, {"host", 24 << 20}}));
}

TEST(PlanTable, NoLineIsWiderThanATerminal) {
  TrainingPlan plan = some_plan(1024, 2);
  plan.specs.clear();
  for (int block = 0; block < 1000; ++block)
    plan.specs.push_back({.name = "transformer.h." + std::to_string(block) + ".weight",
                          .shape = {1 << 20, 1 << 14},
                          .trainable = block > 0});
  plan.units = make_units(plan.specs, {});
  plan.options.accumulate = 3;
  plan.beside = {.device = std::int64_t{1023} << 30, .host = std::int64_t{1023} << 30};
  plan.machine = {.machines = 128, .ranks = 8, .free_bytes = 1 << 20, .batch = 8, .activation_bytes = 1 << 30};
  Placement placement = placement_of(plan);
  spread_over_tiers(placement, plan.units, plan.world, {.optimizer = {.disk = 1}});
  plan.tiers = placement.tiers;
  plan.computation = estimated_computation({.flops = 6e21, .flops_per_second = 1.5e12, .crowd = 3});
  plan.predicted.emplace();
  for (const StepPhase phase : kAllStepPhases)
    plan.predicted->busy[static_cast<std::size_t>(phase)][static_cast<std::size_t>(Resource::kDiskWrite)] = 5940;
  plan.without_disk = "which may hold too little to be probed";
  const std::string table = plan_table(plan, kAll);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kColumns) << line;
  EXPECT_NE(table.find("frozen"), std::string::npos);
}

}  // namespace
}  // namespace zero
