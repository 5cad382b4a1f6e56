// Servers with other cuts than equal ranges (AttachOptions::shards): the bits of equal ranges, in every mode.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/plan/units/partition.h"
#include "zero/serve/push_layout.h"
#include "zero/serve/push_worker.h"

#include "tests/serve/served_run.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

// Parameters with several hash blocks each, a frozen table and a bias.
std::vector<ParamSpec> wide_specs(DType dtype = DType::kFloat32) {
  std::vector<ParamSpec> specs{{.name = "wte", .shape = {130, 100}, .dtype = dtype, .own_unit = true}};
  for (const char* block : {"h.0.", "h.1."}) {
    specs.push_back({.name = std::string(block) + "weight", .shape = {90, 101}, .dtype = dtype});
    specs.push_back({.name = std::string(block) + "bias", .shape = {101}, .dtype = dtype});
    specs.push_back({.name = std::string(block) + "proj", .shape = {101, 50}, .dtype = dtype});
  }
  specs.push_back({.name = "h.1.table", .shape = {9001}, .dtype = dtype, .trainable = false});
  return specs;
}

struct CutCase {
  Cut shards;
  std::vector<double> weights{};
};
const std::vector<CutCase>& cut_cases() {
  static const std::vector<CutCase> cases{{Cut::kHash}, {Cut::kWhole}, {Cut::kWeighted, {1, 3}}};
  return cases;
}

AttachOptions cut_options(const CutCase& cut, const SyncPlan& plan, AttachOptions options = {}) {
  options.sync = plan;
  options.shards = cut.shards;
  options.shard_weights = cut.weights;
  return options;
}

AttachOptions in_ranges(const SyncPlan& plan, AttachOptions options = {}) {
  options.sync = plan;
  return options;
}

TEST(ServedCuts, MatchEqualRangesAndServerlessRanks) {
  const TrainedClocks run{.clocks = 3};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const AttachOptions clipped{.clip = 0.5};
    const TrainedBits plain = plain_run(clipped, 2, wide_specs(dtype), run);
    for (const double norm : plain.norms) EXPECT_GT(norm, 0.5) << "the test must clip";
    for (const CutCase& cut : cut_cases()) {
      const TrainedBits served = served_run(cut_options(cut, {.servers = 2}, clipped), 2, wide_specs(dtype), run);
      const std::string where = fmt::format("{} in {}", name_of(cut.shards), name_of(dtype));
      EXPECT_EQ(served.weights, plain.weights) << where;
      EXPECT_EQ(served.losses, plain.losses) << where;
      EXPECT_EQ(served.norms, plain.norms) << where;
    }
  }
}

TEST(ServedCuts, StaleVersionsMatchInEveryCut) {
  const TrainedClocks run{.clocks = 5};
  const SyncPlan stale{.mode = SyncMode::kStale, .servers = 2, .staleness = 2};
  const TrainedBits ranges = served_run(in_ranges(stale), 2, wide_specs(), run);
  for (const CutCase& cut : cut_cases()) {
    const TrainedBits served = served_run(cut_options(cut, stale), 2, wide_specs(), run);
    EXPECT_EQ(served.weights, ranges.weights) << name_of(cut.shards);
    EXPECT_EQ(served.norms, ranges.norms) << name_of(cut.shards);
  }
}

// A run replays the events of another cut's log, with compensation of old gradients. Each server must have each
// worker's weights.
TEST(ServedCuts, EqualRangesReplayInEveryCut) {
  const SyncPlan async{.mode = SyncMode::kAsync, .servers = 2, .staleness = 2, .compensation = 0.5};
  const SyncPlan quorum{.servers = 2, .quorum = 2};
  for (const SyncPlan& plan : {async, quorum}) {
    TrainedClocks run{.clocks = 4};
    const TrainedBits ranges = served_run(in_ranges(plan), 3, wide_specs(), run);
    run.replayed = ranges.events;
    for (const CutCase& cut : cut_cases()) {
      const TrainedBits served = served_run(cut_options(cut, plan), 3, wide_specs(), run);
      EXPECT_EQ(served.events, ranges.events) << name_of(cut.shards);
      EXPECT_EQ(served.weights, ranges.weights) << name_of(cut.shards) << ", " << name_of(plan.mode);
    }
  }
}

// The optimizers have matrices or coded moments.
TEST(ServedCuts, MatricesAndCodesMatchEqualRanges) {
  const TrainedClocks run{.clocks = 2};
  for (const auto& [shards, optimizer] : {std::pair<Cut, OptimizerOptions>{Cut::kWhole, MuonOptions{}},
                                          {Cut::kHash, AdamW8bitOptions{}},
                                          {Cut::kHash, AdafactorOptions{}},
                                          {Cut::kHash, LambOptions{}}}) {
    const AttachOptions options{.optimizer = optimizer};
    EXPECT_EQ(served_run(cut_options({shards}, {.servers = 3}, options), 2, wide_specs(), run).weights,
              served_run(in_ranges({.servers = 3}, options), 2, wide_specs(), run).weights)
        << name_of(optimizer) << ", " << name_of(shards);
  }
}

// The number of bytes is the same for every cut.
TEST(ServedCuts, ElementCrossesOnceEachWay) {
  constexpr std::int64_t kClocks = 3, kWorkers = 2;
  const std::vector<ParamSpec> specs{{.name = "weight", .shape = {300, 100}}};
  for (const CutCase& cut : cut_cases()) {
    const AttachOptions options = cut_options(cut, {.servers = 2});
    const PushLayout layout(specs, options);
    EXPECT_EQ(layout.push_bytes(), 4 * 300 * 100) << name_of(cut.shards);
    TrainedBits bits;
    on_ranks(2 + kWorkers, [&](Communicator& comm) {
      const TrainedClocks run{.clocks = kClocks};
      options.sync.is_server(comm.rank()) ? serve(comm, options, specs, run, bits) : work(comm, options, specs, run);
      const Traffic traffic = comm.traffic();
      const std::int64_t mine = options.sync.is_server(comm.rank())
                                    ? kWorkers * layout.gradient_bytes(layout.units()[0], comm.rank())
                                    : layout.push_bytes();
      EXPECT_EQ(traffic.received_bytes, kClocks * mine) << name_of(cut.shards) << ", rank " << comm.rank();
      EXPECT_EQ(traffic.sent_bytes, kClocks * mine) << name_of(cut.shards) << ", rank " << comm.rank();
    });
  }
}

// Whole parameters or weighted ranges give each server its share.
TEST(ServedCuts, WeightDecidesServersShare) {
  const std::vector<ParamSpec> specs = wide_specs();
  const PushLayout whole(specs, cut_options({Cut::kWhole}, {.servers = 2}));
  const Unit& embedding = whole.units()[0];
  EXPECT_EQ(whole.part(embedding, 0).numel, 13008) << "the whole embedding, to a multiple of 64 bytes";
  EXPECT_EQ(whole.part(embedding, 1).numel, 0);
  const PushLayout weighted(specs, cut_options({Cut::kWeighted, {1, 3}}, {.servers = 2}));
  EXPECT_NEAR(static_cast<double>(weighted.part(embedding, 1).numel), 0.75 * 13000, 16);
  EXPECT_EQ(weighted.block_bytes(0) + weighted.block_bytes(1), 0) << "ranges are contiguous";
}

TEST(ServedCuts, AWorkerChargesItsBlocks) {
  on_ranks(3, [](Communicator& comm) {
    const AttachOptions options = cut_options({Cut::kHash}, {.servers = 2});
    const auto alone = open_group(comm, comm.rank() == 2 ? std::vector<int>{2} : std::vector<int>{}, "worker");
    if (comm.rank() != 2) return;
    ScriptedModel model(*alone, wide_specs(), worker_options(options));
    const auto held = [&] { return model.engine().resources().ledger.held(Tier::kDevice, MemoryTag::kStaging); };
    const std::int64_t before = held();
    const PushWorker worker(model.engine(), comm, options);
    const PushLayout layout(wide_specs(), options);
    EXPECT_GT(layout.block_bytes(0), 0);
    EXPECT_EQ(held() - before, layout.block_bytes(0) + layout.block_bytes(1));
  });
}

// The servers have measured their weights. Worker ranks did not take part, and receive the weights.
TEST(ServedCuts, AWorkerHearsTheServersWeights) {
  const TrainedClocks run{.clocks = 2};
  const AttachOptions measured = cut_options({Cut::kWeighted, {5, 1}}, {.servers = 2});
  AttachOptions unknown = measured;
  unknown.shard_weights.clear();
  TrainedBits bits;
  on_ranks(4, [&](Communicator& comm) {
    measured.sync.is_server(comm.rank()) ? serve(comm, measured, wide_specs(), run, bits)
                                         : work(comm, unknown, wide_specs(), run);
  });
  EXPECT_EQ(bits.weights, served_run(in_ranges({.servers = 2}), 2, wide_specs(), run).weights);
}

}  // namespace
}  // namespace zero
