#include "app/report/plan/plan_table.h"

#include <array>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/text/bytes.h"
#include "zero/plan/units/tier_split.h"

#include "app/report/screen/wrapped.h"
#include "tests/report/some_plan.h"
#include "tests/support/one_line.h"
#include "tests/support/orthogonal_rule.h"

namespace zero {
namespace {

using nlohmann::json;

TEST(PlanTable, RepeatedBlocksAreOneLine) {
  const auto table = plan_table(some_plan(2, 3), std::array{3});
  EXPECT_NE(table.find("h.0-2 (3 x)"), std::string::npos) << table;
  EXPECT_EQ(table.find("h.1"), std::string::npos);
  EXPECT_NE(table.find("wte.weight"), std::string::npos);
  EXPECT_NE(table.find("28,736 parameters, stage 3 on 2 ranks"), std::string::npos) << table;
}

TEST(PlanTable, SumsByNcclAreNamed) {
  TrainingPlan plan = some_plan(2, 3);
  EXPECT_EQ(one_line(plan_table(plan, std::array{3})).find("NCCL"), std::string::npos);
  plan.options.sums = RankSums::kLinked;
  EXPECT_NE(one_line(plan_table(plan, std::array{3})).find("sums NCCL adds gradients of ranks up"), std::string::npos);
  EXPECT_EQ(json::parse(plan_json(plan, std::array{3}))["sums"], "nccl");
}

// As the rule declares them.
TEST(PlanTable, CountsUserMatrixRuleOperations) {
  TrainingPlan plan = some_plan(1, 3);
  EXPECT_EQ(one_line(plan_table(plan, std::array{3})).find("matrices"), std::string::npos);
  plan.options.optimizer = OwnRule{.rule = std::make_shared<OrthogonalRule>()};
  plan.units = units_of(plan.specs, plan.world, plan.options);
  const auto table = one_line(plan_table(plan, std::array{3}));  // three matrices of 64 x 64
  EXPECT_NE(table.find("matrices orthogonal completes matrices of which a rank updates a part: 1.6 MFLOP a step"),
            std::string::npos)
      << table;
}

TEST(PlanTable, MarksOwnStageAmongAsked) {
  const auto all = plan_table(some_plan(4, 1), kAllStages);
  for (const char* row : {"\n stage 0", "\n>stage 1", "\n stage 2", "\n stage 3"})
    EXPECT_NE(all.find(row), std::string::npos) << row;
  const auto one = plan_table(some_plan(4, 1), std::array{1});
  EXPECT_EQ(one.find("stage 3 "), std::string::npos);
  EXPECT_EQ(one.find('>'), std::string::npos);
}

// Several micro-batches send more.
TEST(PlanTable, NamesWayToSendLess) {
  TrainingPlan plan = some_plan(4, 1);
  plan.options.accumulate = 3;
  constexpr std::int64_t kPass = 4 * kPlanParameters / 4 * 3;  // P(N-1)/N, in bytes
  const auto sent = [&](const TrainingPlan& of) {
    return json::parse(plan_json(of, kAllStages))["stages"][1]["sent_bytes"];
  };
  EXPECT_EQ(sent(plan), 4 * kPass);
  const std::string row = "train.reduce = \"last\" stages 0 and 1 send " + format_bytes(2 * kPass) + " instead";
  EXPECT_NE(one_line(plan_table(plan, kAllStages)).find(row), std::string::npos) << plan_table(plan, kAllStages);
  EXPECT_NE(one_line(plan_table(plan, std::array{1})).find(row), std::string::npos);
  EXPECT_EQ(plan_table(plan, std::array{3}).find("train.reduce"), std::string::npos) << "at stage 3 it would hold more";
  EXPECT_EQ(plan_table(some_plan(4, 1), kAllStages).find("train.reduce"), std::string::npos) << "one micro-batch";
  plan.options.reduce = Reduce::kLast;
  EXPECT_EQ(sent(plan), 2 * kPass);
  EXPECT_EQ(plan_table(plan, kAllStages).find("train.reduce"), std::string::npos) << "the option is already set";
}

TEST(PlanTable, WayToSendLessKnowsLeaves) {
  TrainingPlan plan = some_plan(4, 1);
  plan.options.accumulate = 4;
  plan.options.leaves = 16;
  const std::string table = one_line(plan_table(plan, kAllStages));
  EXPECT_NE(table.find(" more, and change no bit"), std::string::npos) << table;
  TrainingPlan sums = some_plan(4, 1, DType::kBFloat16);
  sums.options.accumulate = 4;
  sums.options.reduce_dtype = DType::kFloat32;
  EXPECT_EQ(one_line(plan_table(sums, kAllStages)).find("train.reduce"), std::string::npos) << "it is refused";
}

// K micro-batches gather a unit 2K times.
TEST(PlanTable, GathersAreCountedByMicroBatch) {
  TrainingPlan plan = some_plan(2, 3);
  plan.options.accumulate = 4;
  plan.options.wire.gather = WireCodec::kInt8;
  const std::string table = one_line(plan_table(plan, std::array{3}));
  EXPECT_NE(table.find("gathers each unit twice a micro-batch"), std::string::npos) << table;
  EXPECT_NE(table.find("it sends 1/8 as many parameters"), std::string::npos) << table;
}

TEST(PlanTable, NamesFrozenUnitsWithoutState) {
  auto plan = some_plan(2, 1);
  plan.specs[0].trainable = false;
  plan.units = make_units(plan.specs, {});
  EXPECT_NE(plan_table(plan, std::array{1}).find("frozen"), std::string::npos);
  const auto cost = json::parse(plan_json(plan, std::array{1}));
  EXPECT_EQ(cost["stages"][0]["memory_bytes"]["gradient"], 4 * (kPlanParameters - 256 * 64));
}

// The table says where the computation comes from, and what the prediction omits.
TEST(PlanTable, PredictionNamesSourceAndGaps) {
  TrainingPlan plan = some_plan(2, 3);
  EXPECT_EQ(plan_table(plan, kAllStages).find("predicted"), std::string::npos) << "nobody asked";
  EXPECT_FALSE(json::parse(plan_json(plan, kAllStages)).contains("predicted"));
  plan.computation = estimated_computation({.flops = 6e9, .flops_per_second = 1.5e12});
  plan.predicted.emplace();
  plan.predicted->busy[0][0] = plan.computation.step.forward_seconds;
  plan.without_disk = "which may be too small for a probe";
  const auto table = one_line(plan_table(plan, kAllStages));
  for (const char* part :
       {"predicted forward 1.3 ms (compute)", "bound by compute; without the disk, which may be too small",
        "computation estimated: 6.0 GFLOP a step at 1.5 TFLOP/s, matrix products probed here: the least time. Other "
        "operators, and what each takes to begin, are left out: a small model's step takes longer."})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  const auto predicted = json::parse(plan_json(plan, kAllStages))["predicted"];
  EXPECT_EQ(predicted["computation"]["flops_per_step"], 6e9);
  EXPECT_EQ(predicted["counts_disk"], false);
  EXPECT_NE(table.find("communication is left out: add the time in which a rank sends 168 KiB a step"),
            std::string::npos)
      << table;
  plan.computation = estimated_computation({.flops = 6e9, .flops_per_second = 1.5e12, .crowd = 3});
  EXPECT_NE(one_line(plan_table(plan, kAllStages)).find("probed here, 3 threads to a core"), std::string::npos);
  plan.computation.from = ComputationFrom::kRun;
  plan.computation.world = plan.world;
  EXPECT_NE(plan_table(plan, kAllStages).find("measured by the run of --profile\n"), std::string::npos);
  plan.computation.world = 7;
  plan.computation.scale = 1.5;
  EXPECT_NE(
      one_line(plan_table(plan, kAllStages)).find("of --profile on 7 ranks, times 1.50 for the samples of a rank comm"),
      std::string::npos)
      << plan_table(plan, kAllStages);
  EXPECT_EQ(json::parse(plan_json(plan, kAllStages))["predicted"]["computation"]["scale"], 1.5);
}

TEST(PlanTable, ShowsCostsBesideStates) {
  TrainingPlan plan = some_plan(2, 3);
  EXPECT_EQ(plan_table(plan, kAllStages).find("beside them"), std::string::npos) << "nobody asked";
  plan.beside = {.device = 3 << 20, .host = 24 << 20};
  EXPECT_NE(plan_table(plan, kAllStages).find("beside them at most 3.00 MiB on the device"), std::string::npos);
  EXPECT_EQ(json::parse(plan_json(plan, kAllStages))["beside_states_bytes"],
            (json{{"device", 3 << 20}, {"host", 24 << 20}}));
}

// The table shows the bytes that groups keep, and the bytes that stay inside them.
TEST(PlanTable, SecondaryGroupsShowKeptAndInternal) {
  TrainingPlan plan = some_plan(4, 3);
  EXPECT_EQ(plan_table(plan, kAllStages).find("secondary"), std::string::npos);
  EXPECT_FALSE(json::parse(plan_json(plan, kAllStages)).contains("secondary"));
  plan.options.secondary_group = 2;
  constexpr std::int64_t kHalf = 4 * kPlanParameters / 2;  // a rank's kept weights; a gather of parts
  EXPECT_NE(one_line(plan_table(plan, kAllStages))
                .find("groups of 2 neighbours keep gathered weights together, " + format_bytes(kHalf)),
            std::string::npos)
      << plan_table(plan, kAllStages);
  const auto secondary = json::parse(plan_json(plan, kAllStages))["secondary"];
  EXPECT_EQ(secondary["kept_bytes"], kHalf);
  EXPECT_EQ(secondary["sent_within_bytes"], kHalf);
  EXPECT_EQ(secondary["sent_between_bytes"], 2 * kHalf) << "a gather and a reduction, half of each to the other group";
  EXPECT_EQ(json::parse(plan_json(plan, kAllStages))["stages"][3]["sent_bytes"], 4 * kPlanParameters / 4 * 6 + kHalf);
}

TEST(PlanTable, CodecsAreNamed) {
  TrainingPlan plan = some_plan(2, 3);
  EXPECT_EQ(plan_table(plan, kAllStages).find("wire"), std::string::npos);
  plan.options.wire = {.gather = WireCodec::kInt8, .reduce = WireCodec::kInt4};
  EXPECT_NE(plan_table(plan, kAllStages).find("parameters (at stage 3) as int8, gradients as int4"), std::string::npos);
  plan.options.wire = {.outer_topk = 0.01};
  EXPECT_NE(plan_table(plan, kAllStages).find("of outer steps the 10 largest of each 1024 elements"),
            std::string::npos);
}

TEST(PlanTable, TwoPassRuleNamesRepeatedReads) {
  TrainingPlan plan = some_plan(2, 3);
  EXPECT_EQ(plan_table(plan, kAllStages).find("passes"), std::string::npos) << "AdamW makes one pass";
  plan.options.optimizer = LambOptions{};
  const std::string two = "passes lamb makes 2 passes over its parameters: sums over whole parameters come first";
  const std::string resident = one_line(plan_table(plan, std::array{3}));
  EXPECT_NE(resident.find(two), std::string::npos) << resident;
  EXPECT_EQ(resident.find("are read"), std::string::npos);
  Placement placement = placement_of(plan);
  spread_over_tiers(placement, plan.units, plan.world, {.optimizer = {.disk = 1}});
  plan.tiers = placement.tiers;
  const std::string on_disk = one_line(plan_table(plan, std::array{3}));
  const std::int64_t moments = state_bytes(plan.units, 2, placement_of(plan), optimizer_spec(plan), Tier::kDisk).moment;
  EXPECT_GE(moments, 2 * 4 * kPlanParameters / 2) << "two of a rank's half of the parameters, in whole pages";
  EXPECT_NE(on_disk.find(two + "; the " + format_bytes(moments) +
                         " of master copies and moments on disk are read 2 times a step"),
            std::string::npos)
      << on_disk;
}

TEST(PlanTable, LinesFitTerminal) {
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
    plan.predicted->busy[static_cast<std::size_t>(phase)][static_cast<std::size_t>(writes_of(Tier::kDisk))] = 5940;
  plan.without_disk = "which may be too small for a probe";
  const std::string table = plan_table(plan, kAllStages);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kColumns) << line;
  EXPECT_NE(table.find("frozen"), std::string::npos);
}

}  // namespace
}  // namespace zero
