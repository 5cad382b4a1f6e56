#include "zero/plan/cluster/cluster.h"

#include <vector>

#include <gtest/gtest.h>

#include "zero/plan/units/estimate.h"
#include "zero/plan/units/weighted_cut.h"

namespace zero {
namespace {

std::vector<Unit> some_units() {
  std::vector<ParamSpec> specs;
  for (const char* block : {"h.0", "h.1", "h.2"})
    specs.push_back({.name = std::string(block) + ".weight", .shape = {64, 64}});
  return make_units(specs, {});
}

Placement placement_of(int stage, const Mesh& mesh, bool local = false) {
  Placement placement = place(stage, Reduce::kAuto, 1);
  (local ? placement.merged_copies : placement.copies) = mesh.copies;
  return placement;
}

double sent_of(int stage, const Mesh& mesh) {
  return static_cast<double>(sent_bytes(some_units(), mesh.shard, placement_of(stage, mesh)));
}

TEST(Cluster, LoneHostSendsNothing) {
  const Cluster cluster{.hosts = 1, .ranks = 8};
  for (const int group : {2, 8}) {
    const Mesh mesh = mesh_of(8, group);
    const Exchange exchange = exchange_of_step(some_units(), mesh, placement_of(3, mesh), cluster);
    EXPECT_EQ(exchange.leaving, 0);
    EXPECT_EQ(exchange.delay, 0);
    EXPECT_GE(exchange.within, sent_of(3, mesh));
  }
}

TEST(Cluster, HostOfOneRankSendsEverything) {
  const Cluster cluster{.hosts = 8, .ranks = 1};
  const Mesh mesh = mesh_of(8, 0);
  for (const int stage : {0, 1, 2, 3}) {
    const Exchange exchange = exchange_of_step(some_units(), mesh, placement_of(stage, mesh), cluster);
    EXPECT_DOUBLE_EQ(exchange.leaving, sent_of(stage, mesh));
    EXPECT_EQ(exchange.within, 0);
  }
}

TEST(Cluster, RankSendsEquallyToOthers) {
  const Cluster cluster{.hosts = 4, .ranks = 2};
  const Mesh mesh = mesh_of(8, 0);
  const Exchange exchange = exchange_of_step(some_units(), mesh, placement_of(3, mesh), cluster);
  EXPECT_DOUBLE_EQ(exchange.within, sent_of(3, mesh) / 7);
  EXPECT_DOUBLE_EQ(exchange.leaving, 2 * sent_of(3, mesh) * 6 / 7) << "from both ranks to the six on other machines";
}

TEST(Cluster, HostGroupsSendGradientsOnly) {
  const Mesh two = mesh_of(8, 4), four = mesh_of(8, 2);
  double shards = 0;  // of all units, in fp32
  for (const Unit& unit : some_units()) shards += static_cast<double>(crossing_bytes(unit, four));
  const auto leaving = [&](const Mesh& mesh, const Cluster& cluster) {
    return exchange_of_step(some_units(), mesh, placement_of(3, mesh), cluster).leaving;
  };
  EXPECT_DOUBLE_EQ(leaving(four, {.hosts = 4, .ranks = 2}), 2 * 2 * shards) << "a machine in the middle, up and down";
  EXPECT_DOUBLE_EQ(leaving(two, {.hosts = 2, .ranks = 4}),
                   4.0 * static_cast<double>(sent_between_copies(some_units(), two, placement_of(3, two))));
}

TEST(Cluster, CodedGradientsReachEachOtherMachine) {
  const Mesh mesh = mesh_of(8, 2);
  const Cluster cluster{.hosts = 4, .ranks = 2};
  Placement placement = placement_of(3, mesh);
  placement.wire.outer = WireCodec::kInt8;
  const Exchange exchange = exchange_of_step(some_units(), mesh, placement, cluster);
  EXPECT_DOUBLE_EQ(exchange.leaving, 2.0 * static_cast<double>(sent_between_copies(some_units(), mesh, placement)));
}

TEST(Cluster, CopiesOnOneHostStayThere) {
  const Mesh mesh = mesh_of(8, 2);  // two copies on each of two machines
  const Cluster cluster{.hosts = 2, .ranks = 4};
  const Mesh hosts = mesh_of(8, 4);
  const auto leaving = [&](const Mesh& ways) {
    return exchange_of_step(some_units(), ways, placement_of(3, ways), cluster).leaving;
  };
  EXPECT_DOUBLE_EQ(leaving(mesh), leaving(hosts)) << "one border between machines, with any number of ranks beside it";
}

// Copies that train apart use the link only in the outer step.
TEST(Cluster, LocalStepsUseNoLink) {
  const Mesh mesh = mesh_of(8, 2);
  const Cluster cluster{.hosts = 4, .ranks = 2, .latency = 1};
  const Placement placement = placement_of(3, mesh, /*local=*/true);
  EXPECT_EQ(exchange_of_step(some_units(), mesh, placement, cluster).leaving, 0);
  const OuterBytes bytes = outer_bytes(some_units(), mesh, placement);
  const Exchange outer = exchange_of_outer_step(some_units(), mesh, placement, cluster);
  EXPECT_DOUBLE_EQ(outer.leaving, 2.0 * static_cast<double>(bytes.between_copies));
  EXPECT_EQ(outer.delay, 6) << "a reduction and a gather of each unit";
}

TEST(Cluster, SecondsAddLinksAndMessages) {
  const Cluster cluster{.hosts = 2, .ranks = 2, .network = 100, .within = 1000, .latency = 0.5};
  EXPECT_DOUBLE_EQ(seconds_of({.within = 3000, .leaving = 400, .delay = 3}, cluster), 3 + 4 + 3);
  EXPECT_DOUBLE_EQ(seconds_of({.within = 3000, .leaving = 400}, {.hosts = 2, .ranks = 2, .network = 100}), 4);
}

TEST(Cluster, TheSlowestRankAndTheMean) {
  EXPECT_EQ((Cluster{.speeds = {1, 0.5, 0.75}}.slowest()), 0.5);
  EXPECT_EQ((Cluster{.speeds = {1, 0.5, 0.75}}.mean()), 0.75);
  EXPECT_EQ(Cluster{}.slowest(), 1);
}

// The ranks' speed varies (jitter), so a step takes as long as its slowest rank.
TEST(Cluster, OneWaitsForTheSlowest) {
  const Cluster cluster{.hosts = 1, .ranks = 4, .jitter = 0.1};
  EXPECT_DOUBLE_EQ(seconds_of_all(2, 1, cluster), 2.2);
  EXPECT_DOUBLE_EQ(seconds_of_all(2, 4, cluster), 2 + 0.2 * (1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4));
  EXPECT_DOUBLE_EQ(seconds_of_all(2, 4, {.ranks = 2, .speeds = {1, 0.5}}), 4);
}

TEST(Cluster, EqualWeightsMatchRanges) {
  const Cluster cluster{.hosts = 4, .ranks = 2};
  for (const int group : {4, 8})
    for (const int stage : {2, 3}) {
      const Mesh mesh = mesh_of(8, group);
      const std::vector<double> weights(static_cast<std::size_t>(group), 1.0);
      const Exchange even = exchange_of_step(some_units(), mesh, placement_of(stage, mesh), cluster);
      const Exchange weighed =
          exchange_of_step(weighted_units(some_units(), weights, 0), mesh, placement_of(stage, mesh), cluster);
      EXPECT_DOUBLE_EQ(weighed.within, even.within);
      EXPECT_DOUBLE_EQ(weighed.leaving, even.leaving);
      EXPECT_DOUBLE_EQ(weighed.delay, even.delay);
    }
}

// Machine 0 owns three fourths of each unit. In a gather it sends them to both ranks of machine 1. In a reduction it
// sends the other fourth.
TEST(Cluster, LargerOwnerSendsMore) {
  const Cluster cluster{.hosts = 2, .ranks = 2};
  const Mesh mesh = mesh_of(4, 0);
  const std::vector<double> weights{3, 3, 1, 1};
  const auto units = weighted_units(some_units(), weights, 0);
  const double model = 3 * 64 * 64 * 4;
  const Exchange exchange = exchange_of_step(units, mesh, placement_of(3, mesh), cluster);
  EXPECT_DOUBLE_EQ(exchange.leaving, 2 * 2 * (model * 3 / 4) + 2 * (model / 4)) << "two gathers, a reduction";
  EXPECT_DOUBLE_EQ(exchange.within, 2 * (model * 3 / 8) + model * 3 / 8);
}

// Two units are in flight at a time.
TEST(Cluster, ChainDelaysFirstPiece) {
  const Mesh mesh = mesh_of(4, 1);
  const Placement placement = placement_of(0, mesh);
  const auto unit = static_cast<double>(crossing_bytes(some_units()[0], {}));
  const auto delay = [&](const Mesh& copies, const Cluster& cluster) {
    return exchange_of_step(some_units(), copies, placement, cluster).delay;
  };
  EXPECT_DOUBLE_EQ(delay(mesh_of(2, 1), {.hosts = 2, .ranks = 1, .network = unit}), 1)
      << "the last unit is one piece and is sent by itself";
  EXPECT_DOUBLE_EQ(delay(mesh_of(3, 1), {.hosts = 3, .ranks = 1, .network = unit}), 3);
  // The chain has six hops. The byte rate already covers one of them, and each unit takes three hops while its bytes
  // take two.
  EXPECT_DOUBLE_EQ(delay(mesh, {.hosts = 4, .ranks = 1, .network = unit}), 5 + 3);
  EXPECT_DOUBLE_EQ(delay(mesh, {.hosts = 1, .ranks = 4, .within = unit}), 5 + 3);
  EXPECT_DOUBLE_EQ(delay(mesh, {.hosts = 4, .ranks = 1, .network = unit, .latency = 1}), 5 + 12 + 6)
      << "a unit takes 6 up and down again, and waits for 6 messages";
}

// The first delay of a chain is that of one piece. A large unit has 32 pieces, so its piece is a 32nd of the unit. Up
// to 24 pieces are in flight.
TEST(Cluster, LargeUnitsTakeTheirBytesTime) {
  const std::vector<Unit> units = make_units({{.name = "h.0.weight", .shape = {1024, 1024}}}, {});
  const auto unit = static_cast<double>(crossing_bytes(units[0], {}));
  const auto seconds = [&](int copies) {
    const Mesh mesh = mesh_of(copies, 1);
    const Cluster cluster{.hosts = copies, .ranks = 1, .network = unit};
    return seconds_of(exchange_of_step(units, mesh, placement_of(0, mesh), cluster), cluster);
  };
  EXPECT_DOUBLE_EQ(seconds(2), 1 + 1.0 / 32);
  EXPECT_DOUBLE_EQ(seconds(4), 2 + 5.0 / 32);
  EXPECT_DOUBLE_EQ(seconds(25), 2 + 47.0 / 32) << "24 passages up and as many down, of which 24 pieces are under way";
  EXPECT_DOUBLE_EQ(seconds(49), 4 + 95.0 / 32);
}

TEST(Cluster, PlansTenThousandRanks) {
  const Cluster cluster{.hosts = 1250, .ranks = 8, .latency = 1};
  const Mesh mesh = mesh_of(10'000, 8);
  const Exchange exchange = exchange_of_step(some_units(), mesh, placement_of(3, mesh), cluster);
  EXPECT_GT(exchange.leaving, 0);
  EXPECT_EQ(exchange.delay, 2 * 1249 + 3 * 1249) << "up and down through all copies, two units at a time";
  const auto weighted = weighted_units(some_units(), std::vector<double>(10'000, 1.0), 0);
  const Mesh one = mesh_of(10'000, 0);
  EXPECT_GT(exchange_of_step(weighted, one, placement_of(3, one), cluster).leaving, 0);
}

}  // namespace
}  // namespace zero
