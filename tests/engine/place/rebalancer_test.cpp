// Rebalancing: states move while a model trains, because other programs need memory. The bits do not change.
#include "zero/engine/place/rebalancer.h"

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kReserve = kMiB;

// About 1 MB of parameters, and a frozen table.
std::vector<ParamSpec> specs(DType dtype) {
  return {{.name = "wte", .shape = {300, 250}, .dtype = dtype, .own_unit = true},
          {.name = "h.0.weight", .shape = {300, 300}, .dtype = dtype},
          {.name = "h.1.weight", .shape = {300, 260}, .dtype = dtype},
          {.name = "h.1.table", .shape = {20000}, .dtype = dtype, .trainable = false},
          {.name = "ln_f", .shape = {9}, .dtype = dtype}};
}

struct Case {
  int world = 1;
  int stage = 3;
  DType dtype = DType::kFloat32;
  int accumulate = 1;
};

struct Outcome {
  std::vector<std::uint32_t> weights;
  std::vector<double> norms;
  double checksum = 0;
  EngineReport report;
  std::vector<std::int64_t> in_memory;  // bytes of states, by step
};

// `free_bytes` returns the free memory of each step. If it is empty, memory is not monitored.
Outcome training(const Case& c, const std::string& folder, int steps, std::function<std::int64_t(int)> free_bytes) {
  Outcome outcome;
  on_ranks(c.world, [&](Communicator& comm) {
    int step = 0;
    OffloadOptions offload;
    EngineHost host{.local_world = c.world};
    if (free_bytes) {
      offload.disk = {folder};
      offload.checksums = true;
      offload.monitor = {.reserve_bytes = kReserve, .period = std::chrono::milliseconds(0)};
      host.seams.read_memory = [&] { return MemoryReading{.free_bytes = free_bytes(step)}; };
    }
    ScriptedModel model(comm, specs(c.dtype),
                        {.stage = c.stage, .clip = 1.5, .accumulate = c.accumulate, .offload = offload}, host);
    for (; step < steps; ++step) {
      const StepReport report = model.train(step, c.accumulate);
      const EngineReport now = model.engine().report();
      if (comm.rank() != 0) continue;
      outcome.norms.push_back(report.grad_norm);
      outcome.in_memory.push_back(now.memory.device.state() + now.memory.host.state());
    }
    const auto bits = model.weight_bits();
    if (comm.rank() != 0) return;
    outcome.weights = bits;
    outcome.checksum = model.checksum();
    outcome.report = model.engine().report();
  });
  return outcome;
}

class Rebalancing : public testing::Test {
 protected:
  Outcome train(const Case& c, int steps, std::function<std::int64_t(int)> free_bytes) const {
    return training(c, folder_.path().string(), steps, std::move(free_bytes));
  }
  TemporaryFolder folder_;
};

// Memory is short twice, and then free for many steps.
std::int64_t come_and_go(int step) {
  if (step == 0) return 10 * kReserve;  // the moments have no committed memory yet
  if (step == 1) return kReserve / 2;
  if (step == 3) return 0;
  return step < 6 ? 2 * kReserve : 20 * kReserve;
}
using RebalancingSlow = Rebalancing;

TEST_F(RebalancingSlow, MovedStatesKeepBits) {
  const std::vector<Case> cases{
      {.world = 1},
      {.world = 2, .dtype = DType::kBFloat16},
      {.world = 3, .accumulate = 2},
      {.world = 2, .stage = 2, .dtype = DType::kBFloat16},
      {.world = 2, .stage = 1, .accumulate = 2},
      {.world = 2, .stage = 0},
  };
  Sweep sweep(2);
  for (const Case& c : cases) {
    if (!sweep.takes_next()) continue;
    constexpr int kSteps = 16;
    const Outcome still = train(c, kSteps, {});
    const Outcome moved = train(c, kSteps, come_and_go);
    const std::string name = fmt::format("{} ranks, stage {}, {}", c.world, c.stage, name_of(c.dtype));
    EXPECT_EQ(moved.weights, still.weights) << name;
    EXPECT_EQ(moved.norms, still.norms) << name;
    EXPECT_EQ(moved.checksum, still.checksum) << name;
    EXPECT_GE(moved.report.replans, 2) << name;
    EXPECT_GT(moved.report.moved_bytes, 0) << name;
    // States move down, and later back to where they were.
    const auto least = *std::min_element(moved.in_memory.begin(), moved.in_memory.end());
    EXPECT_LT(least, moved.in_memory.front()) << name;
    EXPECT_EQ(moved.in_memory.back(), moved.in_memory.front()) << name;
    EXPECT_EQ(moved.in_memory.front(), still.in_memory.front()) << name;
  }
}

TEST_F(RebalancingSlow, ReleasesOnlyTheWantedMemory) {
  const Outcome outcome = train({}, 4, [](int step) {
    return step == 0 ? 10 * kReserve : step == 1 ? kReserve / 2 : 2 * kReserve;
  });
  const std::int64_t wanted = kReserve / 2 + kReserve;
  const std::int64_t given = outcome.in_memory.front() - outcome.in_memory.back();
  // Gathered units are released first: all except twice the largest unit.
  const std::int64_t gathered = 4 * (300 * 250 + 300 * 300 + 300 * 260 + 20000 + 9 - 2 * 300 * 300);
  EXPECT_GE(given, wanted - gathered - 64);
  EXPECT_LE(given, wanted - gathered + kMiB / 4) << "blocks are smaller than that";
  EXPECT_EQ(outcome.report.replans, 1);
  EXPECT_EQ(outcome.report.memory.disk.state() > 0, true);
}

TEST_F(RebalancingSlow, MakesRoomBeforeTheFirstStep) {
  const Outcome still = train({.world = 2}, 4, {});
  on_ranks(2, [&](Communicator& comm) {
    std::int64_t free_bytes = 100 * kMiB;
    OffloadOptions offload{.disk = {folder_.path().string()}};
    offload.monitor = {.reserve_bytes = kReserve, .period = std::chrono::milliseconds(0)};
    ScriptedModel model(
        comm, specs(DType::kFloat32), {.stage = 3, .clip = 1.5, .offload = offload},
        {.local_world = 2, .seams = {.read_memory = [&] { return MemoryReading{.free_bytes = free_bytes}; }}});
    model.engine().settle();
    EXPECT_EQ(model.engine().report().replans, 0) << "memory is not short";
    const auto in_memory = [&] {
      const Ledger& ledger = model.engine().resources().ledger;
      return ledger.held(Tier::kDevice).state() + ledger.held(Tier::kHost).state();
    };
    const std::int64_t placed = in_memory();
    if (comm.rank() == 1) free_bytes = 0;  // on only one of the two ranks
    model.engine().settle();
    EXPECT_EQ(model.engine().report().replans, 1);
    EXPECT_LT(in_memory(), placed);
    free_bytes = 7 * kReserve / 2;  // not short, although moments have no pages yet, and not calm
    for (int step = 0; step < 4; ++step)
      EXPECT_EQ(model.train(step).grad_norm, still.norms[static_cast<std::size_t>(step)]);
    const auto weights = model.weight_bits();
    if (comm.rank() == 0) {
      EXPECT_EQ(weights, still.weights);
    }
    free_bytes = 0;
    model.engine().settle();
    EXPECT_EQ(model.engine().report().replans, 1) << "each step reads the free memory";
  });
}

TEST_F(RebalancingSlow, FixedStatesStayOnTheDevice) {
  const Outcome outcome = train({.world = 2, .stage = 1}, 5, [](int) { return std::int64_t{0}; });
  EXPECT_EQ(outcome.report.memory.device[MemoryTag::kMoment], 0);
  EXPECT_GT(outcome.report.memory.device[MemoryTag::kParameter], 0);
  EXPECT_EQ(outcome.report.replans, 1) << "no more memory can be released";
}

TEST_F(RebalancingSlow, PagesGoBackToTheSystem) {
  if (built::kSanitized) GTEST_SKIP() << "shadow memory is also resident, and stays";
  const auto resident = [](bool short_of_memory) {
    TemporaryFolder folder;
    std::int64_t pages = 0;
    on_ranks(1, [&](Communicator& comm) {
      OffloadOptions offload{.disk = {folder.path().string()}};
      offload.monitor = {.reserve_bytes = 64 * kMiB, .period = std::chrono::milliseconds(0)};
      const auto read = [&] { return MemoryReading{.free_bytes = short_of_memory ? 0 : 512 * kMiB}; };
      const std::vector<ParamSpec> large{{.name = "h.0.w", .shape = {2048, 4096}}, {.name = "h.1.w", .shape = {9}}};
      ScriptedModel model(comm, large, {.stage = 3, .offload = offload}, {.seams = {.read_memory = read}});
      for (int step = 0; step < 3; ++step) model.train(step);
      std::ifstream statm("/proc/self/statm");
      statm >> pages >> pages;
    });
    return pages * 4096;
  };
  const std::int64_t before = resident(false), after = resident(true);
  // Parameter, gradient and two moments have 32 MiB each. A few tiles replace them.
  EXPECT_LT(after, before - 48 * kMiB) << before << " bytes resident, and " << after;
}

TEST_F(RebalancingSlow, ExplicitPlacementReleasesOnlyGathered) {
  const OffloadOptions on_disk{.fractions = {.optimizer = {.disk = 0.5}}, .disk = {folder_.path().string()}};
  for (OffloadOptions offload : {on_disk, OffloadOptions{}}) {
    const auto run = [&](bool monitored) {
      Outcome outcome;
      on_ranks(1, [&](Communicator& comm) {
        int num_readings = 0;
        offload.monitor = {.on = monitored, .reserve_bytes = kReserve, .period = std::chrono::milliseconds(0)};
        const auto read = [&] {
          ++num_readings;
          return MemoryReading{.free_bytes = 0};
        };
        ScriptedModel model(comm, specs(DType::kFloat32), {.stage = 3, .offload = offload},
                            {.seams = {.read_memory = read}});
        for (int step = 0; step < 4; ++step) outcome.norms.push_back(model.train(step).grad_norm);
        EXPECT_EQ(num_readings > 0, monitored);
        outcome.weights = model.weight_bits();
        outcome.report = model.engine().report();
      });
      return outcome;
    };
    const Outcome still = run(false), watched = run(true);
    EXPECT_EQ(watched.weights, still.weights);
    EXPECT_EQ(watched.norms, still.norms);
    EXPECT_EQ(still.report.replans, 0);
    EXPECT_EQ(watched.report.replans, 1) << "only gathered units could be released";
    EXPECT_EQ(watched.report.moved_bytes, 0);
    EXPECT_EQ(watched.report.memory.disk, still.report.memory.disk);
  }
}

TEST_F(RebalancingSlow, UnreadableMachineDoesNotStopTraining) {
  const Outcome still = train({}, 4, {});
  const Outcome blind = train({}, 4, [](int step) -> std::int64_t {
    if (step > 0) throw IoError("/proc/meminfo", "read", EACCES);
    return 10 * kReserve;
  });
  EXPECT_EQ(blind.weights, still.weights);
  EXPECT_EQ(blind.report.replans, 0);
}

}  // namespace
}  // namespace zero
