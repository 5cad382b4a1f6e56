#include "app/report/plan/served_plan.h"

#include <gtest/gtest.h>

#include "zero/plan/units/partition.h"

#include "tests/report/some_plan.h"

namespace zero {
namespace {

TrainingPlan served(int servers, int workers, const SyncPlan& sync) {
  TrainingPlan plan = some_plan(servers, 3);
  plan.options.sync = sync;
  plan.options.sync.servers = servers;
  plan.workers = workers;
  return plan;
}

TEST(ServedPlan, WorkerHoldsWeightsAndGradientsOnly) {
  const ServedPlan plan = served_plan(served(1, 3, {}));
  EXPECT_EQ(plan.worker.parameter, 4 * kPlanParameters);
  EXPECT_EQ(plan.worker.gradient, 4 * kPlanParameters);
  EXPECT_EQ(plan.worker.total(), 8 * kPlanParameters);
  EXPECT_EQ(plan.server.moment, 8 * kPlanParameters);
}

TEST(ServedPlan, Fp32SumsTakeFourBytes) {
  TrainingPlan plan = some_plan(1, 3, DType::kBFloat16);
  plan.options.sync.servers = 1;
  plan.workers = 2;
  const ServedPlan rounded = served_plan(plan);
  plan.options.reduce_dtype = DType::kFloat32;
  const ServedPlan kept = served_plan(plan);
  EXPECT_EQ(kept.server.gradient, 2 * rounded.server.gradient);
  EXPECT_EQ(kept.worker.gradient, 2 * rounded.worker.gradient);
  EXPECT_EQ(kept.pushed, 2 * rounded.pushed);
}

TEST(ServedPlan, ClockMovesModelOnceEachWay) {
  const ServedPlan plan = served_plan(served(2, 3, {}));
  EXPECT_EQ(plan.pushed, 4 * kPlanParameters);
  EXPECT_EQ(plan.pulled, 4 * kPlanParameters);
}

TEST(ServedPlan, StalenessCostsGradientsAndVersions) {
  const ServedPlan fresh = served_plan(served(2, 3, {}));
  const ServedPlan stale = served_plan(served(2, 3, {.mode = SyncMode::kStale, .staleness = 2}));
  EXPECT_EQ(fresh.pushes, 3 * fresh.versions);
  EXPECT_EQ(stale.pushes, 3 * fresh.pushes);
  EXPECT_EQ(stale.versions, 3 * fresh.versions);
}

TEST(ServedPlan, SlowReadersWeightsCountApart) {
  EXPECT_EQ(served_plan(served(2, 3, {})).older, 0) << "no worker is behind if each update needs all workers";
  const ServedPlan quorum = served_plan(served(2, 3, {.quorum = 2}));
  EXPECT_EQ(quorum.older, quorum.versions);
  const TrainingPlan many = served(2, 9, {.mode = SyncMode::kAsync});
  EXPECT_EQ(served_plan(many).older, 4 * served_plan(many).versions);
  EXPECT_NE(served_rows(many).find("of versions before that, which slow workers still read"), std::string::npos);
}

// Hashed blocks send as many bytes as ranges. They also take one block of a worker.
TEST(ServedPlan, HashedBlocksAddWorkerBlock) {
  const ServedPlan ranges = served_plan(served(2, 3, {}));
  TrainingPlan plan = served(2, 3, {});
  plan.options.shards = Cut::kHash;
  plan.units = units_of(plan.specs, 2, plan.options);
  const ServedPlan hashed = served_plan(plan);
  EXPECT_EQ(hashed.pushed, ranges.pushed);
  EXPECT_EQ(hashed.pulled, ranges.pulled);
  EXPECT_EQ(hashed.worker.total(), ranges.worker.total()) << "workers do not cut their units";
  EXPECT_GT(hashed.server.total(), ranges.server.total()) << "shards are padded to the largest";
  EXPECT_EQ(ranges.blocks, 0);
  EXPECT_GT(hashed.blocks, 0);
  EXPECT_LE(hashed.blocks, 4 * 256 * 64) << "its largest unit";
  EXPECT_NE(served_rows(plan).find("puts together what a server owns"), std::string::npos);
}

TEST(ServedPlan, WeightsSayWhichServerGetsMost) {
  TrainingPlan plan = served(2, 3, {});
  plan.options.shards = Cut::kWeighted;
  plan.options.shard_weights = {1, 3};
  plan.units = units_of(plan.specs, 2, plan.options);
  EXPECT_NEAR(served_plan(plan).largest_part, 0.75, 0.01);
  EXPECT_NEAR(served_plan(served(2, 3, {})).largest_part, 0.5, 0.01);
}

TEST(ServedPlan, CompensationCostsWeightsPerWorker) {
  const TrainingPlan with = served(2, 3, {.mode = SyncMode::kAsync, .compensation = 0.1});
  EXPECT_EQ(served_plan(with).compensation, 3 * served_plan(with).versions);
  EXPECT_NE(served_rows(with).find("of the weights that workers compute with (sync.compensation)"), std::string::npos);
  EXPECT_EQ(served_plan(served(2, 3, {.mode = SyncMode::kAsync})).compensation, 0);
}

}  // namespace
}  // namespace zero
