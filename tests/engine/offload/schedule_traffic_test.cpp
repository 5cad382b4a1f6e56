// Disk traffic of a schedule equals the traffic that an engine counts, to the byte. Both count whole pages, and every
// byte of a state on disk is in exactly one tile of a pass.
#include <gtest/gtest.h>

#include "zero/memory/disk/disk_seam.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/tier_split.h"

#include "tests/engine/block_specs.h"
#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/memory/scripted_queue.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

std::vector<ParamSpec> specs(DType dtype) {
  return block_specs(dtype, {.second_block = {700, 1000}});
}

class ScheduleTraffic : public testing::Test {
 protected:
  // Compares every step from the third on. Earlier steps have no schedule, or follow no complete update.
  void expect_agreement(AttachOptions options, const StateFractions& fractions, DType dtype) {
    expect_agreement(std::move(options), fractions, specs(dtype));
  }
  void expect_agreement(AttachOptions options, const StateFractions& fractions, const std::vector<ParamSpec>& trained) {
    options.offload.fractions = fractions;
    options.offload.disk = {folder_.path().string()};
    const OptimizerSpec rule = spec_of(*make_update_rule(options.optimizer));
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, trained, options);
      RankEngine& engine = model.engine();
      for (int step = 0; step < 5; ++step) {
        model.train(step, options.accumulate);
        if (step < 2) continue;
        const DiskTraffic seen = engine.report().requests_per_step.disk;
        const TierTraffic said = simulate(engine.schedule(), engine.units(), comm.world(), rule).of(Tier::kDisk);
        EXPECT_EQ(seen.read_bytes, said.read_bytes) << "step " << step;
        EXPECT_EQ(seen.written_bytes, said.written_bytes) << "step " << step;
        EXPECT_GT(said.read_bytes, 0);
        engine.finish();  // an update that a step begins counts in the next step, in which it ends
      }
    });
  }
  TemporaryFolder folder_;
};
using ScheduleTrafficSlow = ScheduleTraffic;

TEST_F(ScheduleTrafficSlow, GradientsAndMomentsOnDisk) {
  for (const int stage : {2, 3}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const int accumulate : {1, 3}) {
        SCOPED_TRACE(fmt::format("stage {}, {}, {} micro-batches", stage, name_of(dtype), accumulate));
        expect_agreement({.stage = stage, .reduce = Reduce::kEach, .accumulate = accumulate},
                         {.gradient = {.disk = 1}, .optimizer = {.disk = 1}}, dtype);
      }
    }
  }
}

TEST_F(ScheduleTrafficSlow, RuleWithSumsReadsTwice) {
  for (const int stage : {2, 3}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(fmt::format("stage {}, {}", stage, name_of(dtype)));
      expect_agreement({.stage = stage, .optimizer = LambOptions{}},
                       {.gradient = {.disk = 1}, .optimizer = {.disk = 1}}, dtype);
    }
  }
}

// A rule with sums of rows and columns reads gradients a third time.
TEST_F(ScheduleTrafficSlow, RowColumnRuleReadsGradientsThrice) {
  for (const int stage : {2, 3}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(fmt::format("stage {}, {}", stage, name_of(dtype)));
      expect_agreement({.stage = stage, .optimizer = AdafactorOptions{}},
                       {.gradient = {.disk = 1}, .optimizer = {.disk = 1}}, dtype);
    }
  }
}

// Two passes read different states, and no read ahead is wasted.
TEST_F(ScheduleTrafficSlow, MatrixRuleReadsStatesOnce) {
  for (const int stage : {1, 2, 3}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(fmt::format("stage {}, {}", stage, name_of(dtype)));
      StateFractions fractions{.optimizer = {.disk = 1}};
      if (stage > 1) fractions.gradient = {.disk = 1};
      expect_agreement({.stage = stage, .optimizer = MuonOptions{}}, fractions, block_specs(dtype));
    }
  }
}

TEST_F(ScheduleTrafficSlow, PartsOfThem) {
  expect_agreement({.stage = 3}, {.gradient = {.host = 0.2, .disk = 0.3}, .optimizer = {.host = 0.1, .disk = 0.55}},
                   DType::kFloat32);
}

TEST_F(ScheduleTrafficSlow, UnderTheMinBudget) {
  AttachOptions options{.stage = 3, .device_memory = {MemoryBudget::Kind::kMin}};
  options.offload.host_memory.kind = MemoryBudget::Kind::kMin;
  expect_agreement(options, {.gradient = {.disk = 1}, .optimizer = {.disk = 1}}, DType::kFloat32);
}

// Behind a link an update hands nothing to a gather, so every gathered shard is read from disk.
TEST_F(ScheduleTrafficSlow, ParametersOnDiskBehindALink) {
  for (const MemoryBudget::Kind kind : {MemoryBudget::Kind::kAuto, MemoryBudget::Kind::kMin}) {
    AttachOptions options{.stage = 3, .device_memory = {kind}};
    options.offload.link_bytes_per_second = 1e12;
    expect_agreement(options, {.parameter = {.disk = 1}, .gradient = {.disk = 0.5}, .optimizer = {.disk = 1}},
                     DType::kFloat32);
  }
}

// Without a link, a gather takes a shard that was just updated from memory instead of disk. The disk answers late, so
// every update is done when its unit is wanted, and no update is done earlier.
TEST_F(ScheduleTrafficSlow, UpdateHandsParametersToGathers) {
  std::vector<ParamSpec> trained = specs(DType::kFloat32);
  std::erase_if(trained, [](const ParamSpec& spec) { return !spec.trainable; });
  on_ranks(2, [&](Communicator& comm) {
    ScriptedDisk disk;
    disk.answers_look = false;
    const DiskSeam seam{.make_queue = [&](std::span<const int>, int) { return disk.queue(); }};
    AttachOptions options{.stage = 3};
    options.offload = {.fractions = {.parameter = {.disk = 1}}, .disk = {folder_.path().string()}};
    ScriptedModel model(comm, trained, options, {.seams = {.disk_seam = &seam}});
    for (int step = 0; step < 4; ++step) model.train(step);
    const RankEngine& engine = model.engine();
    const DiskTraffic seen = engine.report().requests_per_step.disk;
    const TierTraffic said = simulate(engine.schedule(), engine.units(), comm.world()).of(Tier::kDisk);
    EXPECT_EQ(seen.written_bytes, said.written_bytes);
    std::int64_t updated = 0;
    for (const Unit& unit : engine.units())
      updated += tier_bytes({.disk = shard_numel(unit, comm.world())}, Tier::kDisk, 4);
    EXPECT_EQ(seen.read_bytes, said.read_bytes - updated) << "the forward pass reads no shard that the update had";
  });
}

}  // namespace
}  // namespace zero
