#include "app/report/plan/placed_plan.h"

#include <array>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/comm/board/in_process.h"
#include "zero/engine/place/placer.h"
#include "zero/engine/wire/gradient_staging.h"
#include "zero/plan/units/estimate.h"

#include "app/report/plan/plan_table.h"
#include "tests/support/message_of.h"
#include "tests/support/one_line.h"

namespace zero {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::array kStages{3};

// 16 blocks with 1 MiB of parameters each: 64 MiB of states, 16 MiB on each of four ranks. Two ranks share a GPU.
TrainingPlan planned(std::int64_t free_bytes) {
  TrainingPlan plan{.model = "gpt2", .world = 4, .options = {.stage = 3}};
  for (int block = 0; block < 16; ++block)
    plan.specs.push_back({.name = "h." + std::to_string(block) + ".weight", .shape = {512, 512}});
  plan.units = make_units(plan.specs, {});
  plan.machine = {
      .ranks = 4, .batch = 1, .ranks_on_gpu = 2, .gpu = "cuda:0 Fake GPU", .lower_free_bytes = {.host = 4096 * kMiB}};
  plan.machine->free_bytes = free_bytes;
  return plan;
}

const TierRates kRates{.update_numel = 1e9};

void place(TrainingPlan& plan) {
  EngineHost known{.rates = kRates, .probes = true};
  describe_device(plan, known);
  place_as_run(plan, known, Trace{}, {});
}

std::int64_t bytes_on(const TrainingPlan& plan, const Placement& placement, Tier tier) {
  return state_bytes(plan.units, mesh_of(plan).shard, placement, optimizer_spec(plan), tier).total();
}

// The placement in a run of four ranks whose device has the same free memory.
Placement placement_of_run(const TrainingPlan& plan) {
  auto ranks = make_in_process(4, std::chrono::seconds(60));
  std::array<Placement, 4> placements;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      EngineHost known{.rates = kRates};
      describe_device(plan, known);
      const auto rule = rule_of(plan.options);
      placements[rank] = Placer(ranks[rank].get(), mesh_of(plan), plan.options, plan.units, *rule, known).placement();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return placements[3];
}

// The plan's placement equals that of a run.
TEST(PlacedPlan, PutsGpuExcessOnHost) {
  for (const std::int64_t free_bytes : {32 * kMiB, 40 * kMiB}) {
    TrainingPlan plan = planned(free_bytes);
    place(plan);
    const Placement run = placement_of_run(plan);
    for (const Tier tier : kAllTiers)
      EXPECT_EQ(bytes_on(plan, placement_of(plan), tier), bytes_on(plan, run, tier)) << name_of(tier);
    EXPECT_GT(bytes_on(plan, placement_of(plan), Tier::kHost), 0);
    EXPECT_TRUE(fit_of(plan).fits());
    EXPECT_EQ(fit_of(plan).lower.host.needed, 4 * bytes_on(plan, run, Tier::kHost));
    const std::string table = one_line(plan_table(plan, kStages));
    EXPECT_NE(table.find(" are free on cuda:0 Fake GPU: it fits, with "), std::string::npos) << table;
    EXPECT_NE(table.find("host 4 ranks of this machine take "), std::string::npos) << table;
    EXPECT_NE(table.find("4.00 GiB are free here: they fit"), std::string::npos) << table;
  }
}

TEST(PlacedPlan, CountsWhatSumsBetweenGpusTake) {
  TrainingPlan staged = planned(40 * kMiB), linked = planned(40 * kMiB);
  linked.linked = true;
  EXPECT_EQ(fit_of(linked).rank.working,
            fit_of(staged).rank.working + linked_bytes(linked.units, 4, placement_of(linked), /*min_budget=*/true));
  place(staged);
  place(linked);
  EXPECT_LT(bytes_on(linked, placement_of(linked), Tier::kDevice),
            bytes_on(staged, placement_of(staged), Tier::kDevice));
  EXPECT_EQ(bytes_on(linked, placement_of(linked), Tier::kHost),
            bytes_on(linked, placement_of_run(linked), Tier::kHost));
}

TEST(PlacedPlan, LeavesAllOnRoomyGpu) {
  TrainingPlan plan = planned(256 * kMiB);
  place(plan);
  EXPECT_EQ(bytes_on(plan, placement_of(plan), Tier::kHost), 0);
  EXPECT_EQ(bytes_on(plan, placement_of_run(plan), Tier::kHost), 0);
  EXPECT_TRUE(fit_of(plan).fits());
  EXPECT_EQ(one_line(plan_table(plan, kStages)).find("on the host"), std::string::npos);
}

TEST(PlacedPlan, AbsentGpuHasNoLimit) {
  TrainingPlan plan = planned(0);
  plan.machine->why_free_not_known = "there is no NVIDIA driver";
  EXPECT_FALSE(may_leave_device(plan));
  place(plan);
  EXPECT_TRUE(plan.tiers.empty());
  EXPECT_FALSE(plan.beside);
}

TEST(PlacedPlan, IsRefusedWhereARunIs) {
  TrainingPlan plan = planned(32 * kMiB);
  plan.options.offload.automatic = false;  // zero.placement = device
  const std::string said = message_of<ConfigError>([&] { place(plan); });
  EXPECT_NE(said.find("zero.device_memory = auto: only 12.8 MiB are free"), std::string::npos) << said;
  TrainingPlan tiny = planned(kMiB);
  EXPECT_NE(message_of<ConfigError>([&] { place(tiny); }).find("zero.device_memory = auto"), std::string::npos);
}

TEST(PlacedPlan, RefusalExplainsMissingRoom) {
  TrainingPlan plan = planned(32 * kMiB);
  plan.refused = "zero.device_memory = auto: only 12.8 MiB are free\n  use more ranks";
  EXPECT_FALSE(fit_of(plan).fits());
  const std::string table = one_line(plan_table(plan, kStages));
  EXPECT_NE(table.find("it does not fit"), std::string::npos) << table;
  EXPECT_NE(table.find("a run is refused: zero.device_memory = auto: only 12.8 MiB are free; use more ranks"),
            std::string::npos)
      << table;
  const auto json = nlohmann::json::parse(plan_json(plan, kStages));
  EXPECT_EQ(json["memory"]["fits"], false);
  EXPECT_EQ(json["memory"]["refused"], plan.refused);
  EXPECT_EQ(json["memory"]["gpu"], "cuda:0 Fake GPU");
  EXPECT_NO_THROW(static_cast<void>(schedule_of(plan, Trace{})))
      << "the schedule of a refused plan can still be printed";
}

// With too little free memory on the host, the plan does not fit.
TEST(PlacedPlan, MoreThanFreeHostMemoryFails) {
  TrainingPlan plan = planned(32 * kMiB);
  place(plan);
  plan.machine->lower_free_bytes.host = fit_of(plan).lower.host.needed - 7;
  EXPECT_EQ(fit_of(plan).lower.host.lacks, 7);
  EXPECT_FALSE(fit_of(plan).fits());
  EXPECT_NE(one_line(plan_table(plan, kStages)).find("are free here: 7 B lack"), std::string::npos);
}

}  // namespace
}  // namespace zero
