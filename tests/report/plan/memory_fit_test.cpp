#include "app/report/plan/memory_fit.h"

#include <algorithm>
#include <array>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/report/plan/plan_table.h"
#include "tests/support/one_line.h"

namespace zero {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// 64 blocks with 4 MiB of parameters each: 1 GiB of states at stage 0, and 256 MiB at stage 3 on four ranks.
TrainingPlan planned(int stage, std::int64_t free_bytes, std::int64_t activations = kMiB) {
  TrainingPlan plan{.model = "gpt2", .world = 4, .options = {.stage = stage}};
  for (int block = 0; block < 64; ++block)
    plan.specs.push_back({.name = "h." + std::to_string(block) + ".weight", .shape = {1024, 1024}});
  plan.units = make_units(plan.specs, {});
  plan.machine = {
      .ranks = 4, .free_bytes = free_bytes, .leaves_a_fifth = false, .batch = 8, .activation_bytes = activations};
  return plan;
}

bool says(const std::vector<WayToFit>& ways, const std::string& change) {
  return std::ranges::any_of(ways, [&](const WayToFit& way) { return way.change.find(change) != std::string::npos; });
}

TEST(MemoryFit, NeedIsSumOfRanks) {
  const MemoryFit fit = fit_of(planned(0, 8192 * kMiB));
  EXPECT_EQ(fit.rank.states, 1024 * kMiB);
  EXPECT_EQ(fit.rank.activations, kMiB);
  EXPECT_EQ(fit.needed, 4 * fit.rank.total());
  EXPECT_TRUE(fit.fits());
  EXPECT_EQ(fit_of(planned(3, 8192 * kMiB)).rank.states, 256 * kMiB);
}

TEST(MemoryFit, WhatLacksIsTheDifference) {
  TrainingPlan plan = planned(0, 0);
  const std::int64_t needed = fit_of(plan).needed;
  plan.machine->free_bytes = needed;
  EXPECT_TRUE(fit_of(plan).fits());
  plan.machine->free_bytes = needed - 7;
  EXPECT_EQ(fit_of(plan).lacks, 7);
  plan.machine->free_bytes = needed;
  plan.machine->leaves_a_fifth = true;
  EXPECT_GT(fit_of(plan).lacks, 0) << "the engine takes four fifths at most";
}

// Only the GPU's memory counts, not the host's.
TEST(MemoryFit, GpuRanksShareItsMemory) {
  const std::array stages{3};
  TrainingPlan plan = planned(3, 8192 * kMiB);
  plan.machine->ranks_on_gpu = 2;
  plan.machine->gpu = "cuda:0 Fake GPU";
  EXPECT_EQ(fit_of(plan).needed, 2 * fit_of(plan).rank.total());
  EXPECT_NE(one_line(plan_table(plan, stages)).find("2 ranks of a GPU need "), std::string::npos);
  EXPECT_NE(one_line(plan_table(plan, stages)).find("8.00 GiB are free on cuda:0 Fake GPU: it fits"),
            std::string::npos);
  plan.tiers.assign(
      64, {.parameter = {.device = 1 << 18}, .gradient = {.device = 1 << 18}, .optimizer = {.host = 1 << 18}});
  EXPECT_EQ(fit_of(plan).rank.states, 128 * kMiB) << "the moments are on the host";
}

// A single rank holds units whole.
TEST(MemoryFit, LoneGpuRankGathersNothing) {
  TrainingPlan plan = planned(3, 8192 * kMiB);
  plan.world = plan.machine->ranks = plan.machine->ranks_on_gpu = 1;
  EXPECT_EQ(fit_of(plan).rank.states, 1024 * kMiB);
  EXPECT_EQ(fit_of(plan).rank.working, 4 * kMiB) << "a gradient of one unit, as autograd makes it";
  EXPECT_FALSE(placement_of(plan).parameter_sharded);
  TrainingPlan below = plan;
  below.options.stage = 0;
  EXPECT_EQ(fit_of(below).rank.total(), fit_of(plan).rank.total()) << "at any stage";

  TrainingPlan on_cpu = plan;
  on_cpu.machine->ranks_on_gpu = 0;
  EXPECT_GT(fit_of(on_cpu).rank.working, 4 * kMiB) << "a rank on a CPU gathers";
  TrainingPlan least = plan;
  least.options.device_memory = MemoryBudget::parse("min");
  EXPECT_EQ(fit_of(least).rank.working, fit_of(on_cpu).rank.working);
  TrainingPlan moves = plan;
  moves.movable_disk_bytes = kMiB;
  EXPECT_EQ(fit_of(moves).rank.working, fit_of(on_cpu).rank.working) << "states may leave the GPU later";
  TrainingPlan away = plan;
  away.tiers.assign(
      64, {.parameter = {.device = 1 << 20}, .gradient = {.device = 1 << 20}, .optimizer = {.host = 1 << 20}});
  EXPECT_TRUE(placement_of(away).parameter_sharded);
}

// Without a GPU the plan shows only the need.
TEST(MemoryFit, AbsentGpuGetsNoVerdict) {
  const std::array stages{3};
  TrainingPlan plan = planned(3, 0);
  plan.machine->ranks_on_gpu = 1;
  plan.machine->why_free_not_known = "there is no NVIDIA driver";
  EXPECT_TRUE(fit_of(plan).fits());
  const std::string table = one_line(plan_table(plan, stages));
  EXPECT_NE(table.find("its free memory is not known here: there is no NVIDIA driver"), std::string::npos) << table;
  EXPECT_EQ(table.find("it fits"), std::string::npos);
  const auto json = nlohmann::json::parse(plan_json(plan, stages));
  EXPECT_TRUE(json["memory"]["fits"].is_null()) << json["memory"].dump();
}

TEST(MemoryFit, ComparesDiskStatesWithRoom) {
  const std::array stages{3};
  TrainingPlan plan = planned(3, 8192 * kMiB);
  plan.tiers.assign(
      64, {.parameter = {.device = 1 << 18}, .gradient = {.device = 1 << 18}, .optimizer = {.disk = 1 << 18}});
  plan.machine->lower_free_bytes.disk = 512 * kMiB;
  EXPECT_EQ(fit_of(plan).lower.disk.needed, 512 * kMiB) << "two moments of 64 Mi elements, on four ranks";
  EXPECT_EQ(fit_of(plan).lower.disk.lacks, 0);
  const std::string row = "disk 4 ranks of this machine put 512 MiB of files there; ";
  EXPECT_NE(one_line(plan_table(plan, stages)).find(row + "512 MiB are free: they fit"), std::string::npos);
  plan.machine->lower_free_bytes.disk -= kMiB;
  EXPECT_EQ(fit_of(plan).lower.disk.lacks, kMiB);
  EXPECT_NE(one_line(plan_table(plan, stages)).find(row + "511 MiB are free: 1.00 MiB lack"), std::string::npos);
  plan.tiers.front().optimizer = {.disk = (1 << 18) + 1};
  EXPECT_EQ(fit_of(plan).lower.disk.needed, 516 * kMiB) << "four files, of whole MiB";
  plan.tiers.clear();
  EXPECT_EQ(one_line(plan_table(plan, stages)).find("of files there"), std::string::npos) << "nothing is on a disk";
  plan.movable_disk_bytes = 3 * kMiB - 1;
  EXPECT_EQ(fit_of(plan).lower.disk.needed, 12 * kMiB) << "states may move there later";
  EXPECT_NE(
      one_line(plan_table(plan, stages)).find("put 12.0 MiB of files there, with room for all states that may move"),
      std::string::npos);
}

TEST(MemoryFit, SuggestsSufficientHigherStage) {
  EXPECT_TRUE(says(ways_to_fit(planned(0, 2000 * kMiB)), "--zero.stage 2"));
  EXPECT_TRUE(says(ways_to_fit(planned(0, 1300 * kMiB)), "--zero.stage 3"));
  EXPECT_EQ(lower_stage_that_fits(planned(3, 8192 * kMiB)), 0);
  EXPECT_EQ(lower_stage_that_fits(planned(3, 2000 * kMiB)), 2);
  EXPECT_EQ(lower_stage_that_fits(planned(3, 1300 * kMiB)), -1);
}

TEST(MemoryFit, SuggestsDiskWithNeededSize) {
  const auto ways = ways_to_fit(planned(3, 1000 * kMiB));
  const auto disk = std::ranges::find_if(ways, [](const WayToFit& way) { return way.disk > 0; });
  ASSERT_NE(disk, ways.end());
  EXPECT_EQ(disk->disk, 512 * kMiB) << "two moments of 64 Mi elements";
  EXPECT_LE(disk->needed, 1000 * kMiB);
}

// The model has more than one copy.
TEST(MemoryFit, SuggestsOneCopyOnAllRanks) {
  TrainingPlan plan = planned(3, 1300 * kMiB);
  ASSERT_TRUE(fit_of(plan).fits());
  plan.options.group = 1;
  EXPECT_FALSE(fit_of(plan).fits());
  EXPECT_TRUE(says(ways_to_fit(plan), "--zero.group 0"));
}

TEST(MemoryFit, SuggestsLeastNumberOfMachines) {
  const auto ways = ways_to_fit(planned(3, 500 * kMiB));
  const auto found = std::ranges::find_if(ways, [](const WayToFit& way) { return way.change.starts_with("--world "); });
  ASSERT_NE(found, ways.end());
  EXPECT_LE(found->needed, 500 * kMiB);
  TrainingPlan one_less = planned(3, 500 * kMiB);
  const int world = std::stoi(found->change.substr(8));
  one_less.world = world - 4;
  EXPECT_FALSE(fit_of(one_less).fits()) << found->change;
  one_less.world = world;
  EXPECT_TRUE(fit_of(one_less).fits());
}

// Activations need too much memory.
TEST(MemoryFit, SuggestsSmallerBatchOrCheckpoints) {
  TrainingPlan plan = planned(3, 1600 * kMiB, 800 * kMiB);
  EXPECT_TRUE(says(ways_to_fit(plan), "--train.batch 1,")) << "of 100 MiB each, on four ranks";
  EXPECT_FALSE(says(ways_to_fit(plan), "checkpoint_activations"));
  plan.machine->checkpointed_bytes = 10 * kMiB;
  EXPECT_TRUE(says(ways_to_fit(plan), "--train.checkpoint_activations true"));
  plan.machine->batch = 1;
  plan.machine->checkpointed_bytes = 0;
  plan.machine->free_bytes = kMiB;
  EXPECT_TRUE(ways_to_fit(plan).empty());
}

TEST(MemoryFit, TheTableSaysBoth) {
  const std::array stages{3};
  const auto fits = one_line(plan_table(planned(3, 8192 * kMiB), stages));
  EXPECT_NE(fits.find("8.00 GiB are free here: it fits, and so does stage 0"), std::string::npos) << fits;
  const auto lacks = one_line(plan_table(planned(0, 2000 * kMiB), stages));
  EXPECT_NE(lacks.find("1.95 GiB are free here: it does not fit, "), std::string::npos) << lacks;
  EXPECT_NE(lacks.find("--zero.stage 2: "), std::string::npos) << lacks;
  const auto json = nlohmann::json::parse(plan_json(planned(0, 2000 * kMiB), stages));
  EXPECT_EQ(json["memory"]["fits"], false);
  EXPECT_GE(json["memory"]["would_fit"].size(), 1U);
  EXPECT_EQ(plan_table(TrainingPlan{.model = "x", .units = {}}, stages).find("memory  "), std::string::npos);
}

}  // namespace
}  // namespace zero
