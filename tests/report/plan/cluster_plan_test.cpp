#include "app/report/plan/cluster_plan.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/report/screen/wrapped.h"
#include "tests/report/some_plan.h"
#include "tests/support/expect_contains.h"
#include "tests/support/one_line.h"

namespace zero {
namespace {

TrainingPlan planned(const Cluster& cluster, int stage = 3) {
  TrainingPlan plan = some_plan(cluster.world(), stage);
  plan.machine = {.machines = cluster.hosts, .ranks = cluster.ranks, .activation_bytes = 1 << 20};
  return plan;
}

const ClusterWay& best_of(const ClusterPlan& plan) {
  return plan.ways[static_cast<std::size_t>(plan.best)];
}

bool is_of_one_model(const ClusterWay& way) {
  return !way.local && !way.sync.has_servers() && way.wire == WireCodecs{};
}

TEST(ClusterPlan, SlowLinkHoldsModelPerHost) {
  Cluster cluster{.hosts = 4, .ranks = 8, .network = 1e6, .within = 1e10};
  const ClusterPlan plan = plan_on(planned(cluster), cluster, 0.001);
  EXPECT_EQ(best_of(plan).mesh.shard, 8);
  EXPECT_FALSE(best_of(plan).local) << "another algorithm is only suggested";
  EXPECT_EQ(plan.ways[static_cast<std::size_t>(plan.planned)].mesh.shard, 32);
  EXPECT_CONTAINS(one_line(cluster_table(plan)), "best: --zero.stage 3 --zero.group 8.");
  EXPECT_CONTAINS(one_line(cluster_table(plan)), "--sync.mode local takes 0.0");
}

TEST(ClusterPlan, SkipsPlansThatDoNotFit) {
  Cluster cluster{.hosts = 2, .ranks = 2, .network = 1e9, .memory = 1 << 20};
  const ClusterPlan none = plan_on(planned(cluster), cluster, 1);
  EXPECT_EQ(none.best, -1);
  EXPECT_CONTAINS(one_line(cluster_table(none)), "none of these layouts fits");
  std::int64_t least = none.ways[0].held;
  for (const ClusterWay& way : none.ways)
    if (is_of_one_model(way)) least = std::min(least, way.held);
  cluster.memory = least;
  const ClusterPlan plan = plan_on(planned(cluster), cluster, 1);
  EXPECT_EQ(best_of(plan).held, least);
  EXPECT_EQ(best_of(plan).mesh.shard, 4) << "all ranks hold one copy";
  EXPECT_CONTAINS(cluster_table(plan), "too large");
}

// With memory for all weights, stage 3 sends as many bytes as stage 2.
TEST(ClusterPlan, Stage3MatchesStage2WithMemory) {
  const auto leaving = [](int stage, std::int64_t memory, MemoryBudget budget = {}) {
    const Cluster cluster{.hosts = 2, .ranks = 2, .network = 1e9, .memory = memory};
    TrainingPlan plan = planned(cluster, stage);
    plan.options.device_memory = budget;
    const ClusterPlan found = plan_on(plan, cluster, 1);
    return found.ways[static_cast<std::size_t>(found.planned)].exchange.leaving;
  };
  EXPECT_EQ(leaving(3, 0), leaving(2, 0));
  EXPECT_EQ(leaving(3, std::int64_t{1} << 40), leaving(2, 0));
  EXPECT_GT(leaving(3, 1 << 20), leaving(2, 0)) << "gathered for the forward pass, and again";
  EXPECT_GT(leaving(3, 0, MemoryBudget::parse("min")), leaving(2, 0));
}

TEST(ClusterPlan, TriesSecondaryGroupsIfGatheredTwice) {
  const Cluster cluster{.hosts = 2, .ranks = 4, .network = 1e6};
  TrainingPlan plan = planned(cluster);
  const auto has_some = [](const ClusterPlan& found) {
    return std::ranges::any_of(found.ways, [](const ClusterWay& way) { return way.secondary > 0; });
  };
  EXPECT_FALSE(has_some(plan_on(plan, cluster, 1))) << "weights stay gathered";
  plan.options.device_memory = MemoryBudget::parse("min");
  const ClusterPlan found = plan_on(plan, cluster, 1);
  const ClusterWay& plain = found.ways[static_cast<std::size_t>(found.planned)];
  const auto with = std::ranges::find_if(found.ways, [](const ClusterWay& way) { return way.secondary == 4; });
  ASSERT_NE(with, found.ways.end());
  EXPECT_EQ(with->mesh, plain.mesh);
  EXPECT_DOUBLE_EQ(with->exchange.leaving * 3, plain.exchange.leaving * 2) << "a gather and a reduction";
  plan.options.secondary_group = 4;
  EXPECT_EQ(with->held - plain.held, secondary_cost(plan)->kept);
  EXPECT_CONTAINS(cluster_table(found), "stage 3, all ranks, secondary 4");
  EXPECT_EQ(cluster_json(found)["ways"][with - found.ways.begin()]["secondary_group"], 4);
  const ClusterPlan asked = plan_on(plan, cluster, 1);
  EXPECT_EQ(asked.ways[static_cast<std::size_t>(asked.planned)].secondary, 4);
}

TEST(ClusterPlan, StepWaitsForSlowestRank) {
  const Cluster cluster{.hosts = 1, .ranks = 2, .speeds = {1, 0.25}};
  const ClusterPlan plan = plan_on(planned(cluster), cluster, 0.5);
  EXPECT_DOUBLE_EQ(best_of(plan).seconds, 2);
  EXPECT_CONTAINS(one_line(cluster_table(plan)), "train.share = \"auto\" a step computes for 800 ms instead of 2.00 s");
}

TEST(ClusterPlan, LocalStepsShareOuterStepCost) {
  const Cluster cluster{.hosts = 2, .ranks = 2, .network = 1e6};
  TrainingPlan plan = planned(cluster);
  plan.options.group = 2;
  plan.options.local = LocalSteps{.steps = 10};
  const ClusterPlan found = plan_on(plan, cluster, 0);
  const ClusterWay& local = found.ways[static_cast<std::size_t>(found.planned)];
  const Exchange outer = exchange_of_outer_step(plan.units, mesh_of(plan), placement_of(plan), cluster);
  EXPECT_TRUE(local.local);
  EXPECT_DOUBLE_EQ(local.exchange.leaving, outer.leaving / 10);
}

TEST(ClusterPlan, OverlappedOuterStepCostsUncoveredPart) {
  const Cluster cluster{.hosts = 2, .ranks = 2, .network = 1e6};
  TrainingPlan plan = planned(cluster);
  plan.options.group = 2;
  plan.options.local = LocalSteps{.steps = 10};
  const auto exchange_seconds = [&](double computation) {
    const ClusterPlan found = plan_on(plan, cluster, computation);
    return found.ways[static_cast<std::size_t>(found.planned)].exchange_seconds;
  };
  const double waited = exchange_seconds(0.01);
  plan.options.local->fragments = 2;
  EXPECT_DOUBLE_EQ(exchange_seconds(0.01), waited) << "the same bytes, in two parts";
  plan.options.local->overlap = 4;
  EXPECT_LT(exchange_seconds(0.01), waited);
  EXPECT_GT(exchange_seconds(0.01), exchange_seconds(1e6));
  const Exchange of_step = exchange_of_step(plan.units, mesh_of(plan), placement_of(plan), cluster);
  EXPECT_DOUBLE_EQ(exchange_seconds(1e6), seconds_of(of_step, cluster));
  plan.options.local->overlap = 1;
  EXPECT_DOUBLE_EQ(exchange_seconds(1e6), (waited + seconds_of(of_step, cluster)) / 2)
      << "differences cross beside the one step, and sums are waited for";
}

const ClusterWay* served(const ClusterPlan& plan, SyncMode mode) {
  for (const ClusterWay& way : plan.ways)
    if (way.sync.has_servers() && way.sync.mode == mode) return &way;
  return nullptr;
}

// Servers are tried on one machine. They gain if the ranks' speed varies.
TEST(ClusterPlan, ServersGainIfRanksVary) {
  const Cluster even{.hosts = 1, .ranks = 16};
  const ClusterPlan without = plan_on(planned(even), even, 1);
  ASSERT_NE(served(without, SyncMode::kAsync), nullptr);
  EXPECT_NEAR(served(without, SyncMode::kAsync)->seconds, 16.0 / 14, 0.01) << "two of sixteen compute nothing";
  EXPECT_CONTAINS(one_line(cluster_table(without)), "servers save less than 30 % of it");

  Cluster varying = even;
  varying.jitter = 1;
  const ClusterPlan with = plan_on(planned(varying), varying, 1);
  EXPECT_FALSE(best_of(with).sync.has_servers()) << "another algorithm is only suggested";
  EXPECT_LT(served(with, SyncMode::kAsync)->seconds, 0.7 * best_of(with).seconds);
  const std::string table = one_line(cluster_table(with));
  EXPECT_CONTAINS(table, "waits for the slowest rank");
  EXPECT_CONTAINS(table, "--sync.mode async --sync.servers 2 --sync.staleness 4 takes 0.");
  EXPECT_CONTAINS(table, "gradients are of older weights");
}

TEST(ClusterPlan, ReportsServersThatAreTooLarge) {
  const Cluster cluster{.hosts = 1, .ranks = 16};
  ClusterPlan found = plan_on(planned(cluster), cluster, 1);
  for (ClusterWay& way : found.ways) way.fits = !way.sync.has_servers();
  const std::string table = one_line(cluster_table(found));
  EXPECT_CONTAINS(table, "servers have no room here");
  EXPECT_EQ(table.find("servers save less"), std::string::npos);
}

TEST(ClusterPlan, PlannedServersJoinOtherWays) {
  const Cluster cluster{.hosts = 2, .ranks = 3, .network = 1e6};
  TrainingPlan plan = planned(cluster);
  plan.options.sync = {.mode = SyncMode::kStale, .servers = 2, .staleness = 1};
  plan.world = 2;
  plan.workers = 4;
  const ClusterPlan found = plan_on(plan, cluster, 0.001);
  const ClusterWay& way = found.ways[static_cast<std::size_t>(found.planned)];
  EXPECT_EQ(way.sync, plan.options.sync);
  EXPECT_EQ(way.exchange.leaving, 2.0 * 3 * kPlanParameters * 4) << "from the second machine's workers and back";
  EXPECT_DOUBLE_EQ(way.seconds, way.clock_seconds * 6 / 4) << "for the samples of six";
  EXPECT_GT(found.ways.size(), 4U) << "in the other ways, all ranks compute";
  EXPECT_EQ(best_of(found).mesh.world(), 6);
  EXPECT_CONTAINS(one_line(cluster_table(found)), "servers over several machines exchange messages");
  EXPECT_EQ(cluster_json(found)["ways"][found.planned]["sync"]["staleness"], 1);
}

TEST(ClusterPlan, QuorumCountsUsedGradients) {
  const Cluster cluster{.hosts = 1, .ranks = 5, .speeds = {1, 1, 1, 1, 0.1}};
  TrainingPlan plan = planned(cluster);
  plan.options.sync = {.servers = 1, .quorum = 3};
  plan.world = 1;
  plan.workers = 4;
  const ClusterPlan found = plan_on(plan, cluster, 1);
  EXPECT_NEAR(found.ways[static_cast<std::size_t>(found.planned)].seconds, 5.0 / 3, 0.1);
  EXPECT_CONTAINS(one_line(cluster_table(found)),
                  "--sync.quorum 3 takes 0.17 of that time: 1 of 4 gradients of a clock");
}

// Weights fit only the group for which they were given.
TEST(ClusterPlan, EachGroupIsCutAnew) {
  const Cluster cluster{.hosts = 2, .ranks = 2, .network = 1e6};
  const auto groups = [&](Cut cut, std::vector<double> weights) {
    TrainingPlan plan = planned(cluster);
    plan.options.shards = cut;
    plan.options.shard_weights = std::move(weights);
    plan.units = units_of(plan.specs, plan.world, plan.options);
    std::set<std::pair<int, int>> found;
    const ClusterPlan ways = plan_on(plan, cluster, 1);
    EXPECT_GE(ways.planned, 0);
    for (const ClusterWay& way : ways.ways)
      if (!way.local) found.emplace(way.stage, way.mesh.shard);
    return found;
  };
  using Found = std::set<std::pair<int, int>>;
  EXPECT_EQ(groups(Cut::kWhole, {}), (Found{{0, 1}, {2, 2}, {2, 4}, {3, 1}, {3, 2}, {3, 4}})) << "{3, 1}: a server";
  EXPECT_EQ(groups(Cut::kHash, {}), (Found{{3, 1}, {3, 2}, {3, 4}}));
  EXPECT_EQ(groups(Cut::kWeighted, {2, 1, 1, 1}), (Found{{2, 4}, {3, 4}}));
}

// Codecs are tried on the best way and on local steps.
TEST(ClusterPlan, TriesCodecsOnBestAndLocal) {
  const Cluster cluster{.hosts = 2, .ranks = 4, .network = 1e6};
  const ClusterPlan plan = plan_on(planned(cluster), cluster, 1e-6);
  EXPECT_TRUE(is_of_one_model(best_of(plan)));
  const auto exchange = [&](bool local, const WireCodecs& wire) {
    for (const ClusterWay& way : plan.ways)
      if (way.local == local && way.wire == wire && way.mesh == best_of(plan).mesh &&
          (local || way.stage == best_of(plan).stage))
        return way.exchange.leaving;
    ADD_FAILURE() << "no such way";
    return 0.0;
  };
  EXPECT_NEAR(exchange(false, {}) / exchange(false, {.outer = WireCodec::kInt8}), 3.94, 0.2);
  EXPECT_NEAR(exchange(false, {}) / exchange(false, {.outer = WireCodec::kInt4}), 7.76, 0.5);
  EXPECT_NEAR(exchange(true, {}) / exchange(true, {.outer = WireCodec::kInt8}), 3.94, 0.2);
  EXPECT_GT(exchange(true, {.outer = WireCodec::kInt4}), exchange(true, {.outer_topk = 0.01}));
  const std::string table = one_line(cluster_table(plan));
  EXPECT_CONTAINS(table, "--zero.group 4 --comm.outer_wire int8 takes 0.21 of that time: gradients are rounded");
  EXPECT_CONTAINS(table, "--sync.mode local --comm.outer_wire int8 takes 0.0");
  EXPECT_EQ(cluster_json(plan)["ways"].back()["wire"]["outer"], "topk");
}

// If one copy of the model spans all ranks, a codec applies to all traffic.
TEST(ClusterPlan, SingleCopyCodesAllTraffic) {
  Cluster cluster{.hosts = 2, .ranks = 2, .network = 1e6, .memory = 1 << 20};
  const ClusterPlan none = plan_on(planned(cluster), cluster, 1e-6);
  cluster.memory = none.ways[0].held;
  for (const ClusterWay& way : none.ways)
    if (is_of_one_model(way)) cluster.memory = std::min(cluster.memory, way.held);
  cluster.memory += 1 << 20;  // for staging
  int coded = 0;
  for (const ClusterWay& way : plan_on(planned(cluster), cluster, 1e-6).ways)
    if (!way.local && way.wire != WireCodecs{}) {
      EXPECT_EQ(way.wire.outer != WireCodec::kNone, way.mesh.copies > 1);
      EXPECT_EQ(way.wire.reduce != WireCodec::kNone, way.mesh.copies == 1);
      ++coded;
    }
  EXPECT_EQ(coded, 2);
}

TEST(ClusterPlan, ConfiguredCodecsAreComparedUnchanged) {
  const Cluster cluster{.hosts = 2, .ranks = 4, .network = 1e6};
  TrainingPlan plan = planned(cluster);
  plan.options.wire.reduce = WireCodec::kInt8;
  for (const ClusterWay& way : plan_on(plan, cluster, 1e-6).ways) EXPECT_EQ(way.wire, WireCodecs{});
}

TEST(ClusterPlan, NoWayExceedsAvailableRanks) {
  for (const int hosts : {1, 2, 3, 8}) {
    for (const int ranks : {1, 2, 5, 8, 16}) {
      const Cluster cluster{.hosts = hosts, .ranks = ranks, .network = 1e7, .jitter = 1};
      for (const ClusterWay& way : plan_on(planned(cluster), cluster, 0.01).ways) {
        const SyncPlan& sync = way.sync;
        if (!sync.has_servers()) {
          EXPECT_EQ(way.mesh.world(), cluster.world());
          continue;
        }
        EXPECT_EQ(way.can_run, cluster.world() <= 64) << "at most 64 servers and workers can run";
        EXPECT_GT(sync.num_workers(cluster.world()), 0);
        EXPECT_LE(sync.quorum, sync.num_workers(cluster.world()));
      }
    }
  }
}

// The table shows the cost of servers over several machines.
TEST(ClusterPlan, TriesServersOverSeveralMachines) {
  Cluster cluster{.hosts = 2, .ranks = 8, .network = 1e12, .jitter = 1};
  const ClusterPlan plan = plan_on(planned(cluster), cluster, 1);
  ASSERT_NE(served(plan, SyncMode::kAsync), nullptr);
  EXPECT_GT(served(plan, SyncMode::kAsync)->exchange.leaving, 0);
  const std::string table = one_line(cluster_table(plan));
  EXPECT_CONTAINS(table, "--sync.mode async --sync.servers 2 --sync.staleness 4 takes 0.");
  EXPECT_CONTAINS(table, "servers over several machines exchange messages");
}

// The speed of all ranks varies, so servers would gain much. More servers than a run can have are computed and marked,
// but not recommended.
TEST(ClusterPlan, OversizedServersAreComputedNotRecommended) {
  const Cluster cluster{.hosts = 9, .ranks = 8, .network = 1e12, .jitter = 1};
  const ClusterPlan plan = plan_on(planned(cluster), cluster, 1);
  const ClusterWay* const async = served(plan, SyncMode::kAsync);
  ASSERT_NE(async, nullptr);
  EXPECT_FALSE(async->can_run);
  EXPECT_LT(async->seconds, 0.7 * best_of(plan).seconds);
  const std::string table = cluster_table(plan);
  EXPECT_CONTAINS(table, "(>: planned; *: best; -: cannot run)     holds");
  EXPECT_CONTAINS(table, " -async, staleness 4, 9 servers");
  EXPECT_CONTAINS(one_line(table), "servers cannot run here (-): a run with them has at most 64 ranks");
  EXPECT_EQ(one_line(table).find("--sync.servers"), std::string::npos) << table;
}

TEST(ClusterPlan, OversizedServersTryNoOtherCuts) {
  const Cluster cluster{.hosts = 9, .ranks = 8, .network = 1e9};
  TrainingPlan plan = planned(cluster);
  plan.options.shards = Cut::kHash;
  plan.units = units_of(plan.specs, plan.world, plan.options);
  const ClusterPlan found = plan_on(plan, cluster, 1);
  EXPECT_EQ(served(found, SyncMode::kAsync), nullptr);
  EXPECT_CONTAINS(one_line(cluster_table(found)), "servers were not tried: a run with them has at most 64 ranks");
}

TEST(ClusterPlan, ComputesServersOfTenThousandRanks) {
  const Cluster cluster{.hosts = 1250, .ranks = 8, .network = 12.5e9, .latency = 2e-5, .jitter = 0.1};
  const ClusterPlan plan = plan_on(planned(cluster), cluster, 0.3);
  for (const SyncMode mode : {SyncMode::kSync, SyncMode::kStale, SyncMode::kAsync}) {
    ASSERT_NE(served(plan, mode), nullptr) << name_of(mode);
    EXPECT_EQ(served(plan, mode)->sync.servers, 1250);
    EXPECT_GT(served(plan, mode)->seconds, 0.3);
  }
}

// The lines fit a terminal, and the JSON has every way.
TEST(ClusterPlan, LinesFitAndJsonIsComplete) {
  const Cluster cluster{
      .hosts = 1250, .ranks = 8, .network = 12.5e9, .within = 5e10, .latency = 2e-5, .memory = 80LL << 30};
  const ClusterPlan plan = plan_on(planned(cluster), cluster, 0.3);
  std::istringstream lines(cluster_table(plan));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kColumns) << line;
  const auto json = cluster_json(plan);
  EXPECT_EQ(json["ways"].size(), plan.ways.size());
  EXPECT_EQ(json["ways"][plan.best]["seconds"], best_of(plan).seconds);
}

}  // namespace
}  // namespace zero
