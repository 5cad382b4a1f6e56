// Folders and budgets at their limits: exactly enough space, one byte less, a folder that is removed, shared or
// read-only.
#include <atomic>
#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "zero/memory/disk/disk_seam.h"
#include "zero/plan/units/estimate.h"

#include "tests/engine/scripted_run.h"
#include "tests/memory/failing_calls.h"
#include "tests/support/fp32_states.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr StateFractions kAllOnDisk{.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}};
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
constexpr TierRates kRates{.requests = {.disk = {.read = 1e9, .write = 1e9}}, .update_numel = 1e9};

class DiskBudgets : public testing::Test {
 protected:
  std::string folder() const { return folder_.path().string(); }
  AttachOptions on_disk() const { return {.stage = 3, .offload = {.fractions = kAllOnDisk, .disk = {folder()}}}; }

  TemporaryFolder folder_;
};
using DiskBudgetsSlow = DiskBudgets;

// The refusal names the bytes that are needed.
TEST_F(DiskBudgetsSlow, ExactBudgetWorksLessIsRefused) {
  for (const int world : {1, 2, 3}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const auto units = make_units(small_specs(dtype), {});
      Placement placement = place(3, Reduce::kAuto, 1);
      spread_over_tiers(placement, units, world, kAllOnDisk);
      const std::int64_t need = state_bytes(units, world, placement, fp32_states(2), Tier::kDisk).total();
      AttachOptions options = on_disk();
      const ScriptedRun expected = scripted_run(world, small_specs(dtype), {.stage = 3}, {});
      options.offload.disk_memory = need;
      EXPECT_EQ(scripted_run(world, small_specs(dtype), options, {}), expected);
      options.offload.disk_memory = need - 1;
      const std::string text = message_of<Error>([&] { scripted_run(world, small_specs(dtype), options, {}); });
      EXPECT_TRUE(says(text, "zero.disk_memory"));
      EXPECT_TRUE(says(text, fmt::format("a rank places {} B there", need)));
    }
  }
}

// States leave the device as far as their new tier has room, to the byte. If they do not fit, the run is refused,
// without another effect.
TEST_F(DiskBudgetsSlow, AnySizeIsKeptOrRefused) {
  const std::vector<ParamSpec> specs{{.name = "h.0.w", .shape = {100, 99}}, {.name = "h.1.w", .shape = {70, 90}}};
  int num_runs = 0;
  for (const int world : {1, 2}) {
    const ScriptedRun expected = scripted_run(world, specs, {.stage = 3}, {});
    for (std::int64_t disk = 1; disk < 400000; disk = disk * 3 + 4095) {
      for (const std::int64_t host : {std::int64_t{0}, std::int64_t{1}, std::int64_t{100000}, std::int64_t{20} << 20}) {
        for (const std::int64_t device :
             {std::int64_t{0}, std::int64_t{1}, std::int64_t{150000}, std::int64_t{1} << 20}) {
          AttachOptions options{.stage = 3, .offload = {.disk = {folder()}, .disk_memory = disk}};
          options.device_memory =
              device == 0 ? MemoryBudget{MemoryBudget::Kind::kMin} : MemoryBudget{MemoryBudget::Kind::kBytes, device};
          if (host > 0) options.offload.host_memory = {MemoryBudget::Kind::kBytes, host};
          options.offload.monitor.on = false;
          SCOPED_TRACE(
              fmt::format("{} ranks, {} B on disk, {} on the host, {} on the device", world, disk, host, device));
          try {
            const ScriptedRun run = scripted_run(world, specs, options, {.host = {.rates = kRates}});
            EXPECT_EQ(run, expected);
            ++num_runs;
            for (const EngineReport& report : run.reports) {
              EXPECT_LE(report.memory.disk.state(), disk);
              EXPECT_LE(report.peak_memory_bytes.host, host > 0 ? host : kUnlimited);
              EXPECT_LE(report.peak_memory_bytes.device, device > 0 ? device : kUnlimited);
            }
          } catch (const Error& error) {
            EXPECT_TRUE(says(error.what(), "zero.")) << error.what();
          }
        }
      }
    }
  }
  EXPECT_GT(num_runs, 20);
}

// Free memory varies at random, and only little of the disk may be used.
TEST_F(DiskBudgetsSlow, AreKeptWhileStatesMove) {
  const std::vector<ParamSpec> specs{{.name = "h.0.w", .shape = {100, 99}}, {.name = "h.1.w", .shape = {70, 90}}};
  constexpr int kSteps = 40;
  std::int64_t num_replans = 0, num_within_host = 0;
  for (const int world : {1, 2}) {
    const ScriptedRun expected = scripted_run(world, specs, {.stage = 3}, {.steps = kSteps});
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
      AttachOptions options{.stage = 3, .offload = {.disk = {folder()}}};
      options.offload.disk_memory = (std::int64_t{1} << 17 << seed % 3) + static_cast<std::int64_t>(seed);
      if (seed % 3 == 1) options.device_memory.kind = MemoryBudget::Kind::kMin;
      if (seed % 5 == 2)
        options.offload.host_memory = {MemoryBudget::Kind::kBytes, static_cast<std::int64_t>(seed % 2 == 0 ? 32 : 2)
                                                                       << 20};
      std::atomic<std::uint64_t> looks{0};
      options.offload.monitor = {.reserve_bytes = 1 << 20, .period = std::chrono::milliseconds(0)};
      const auto read = [&] {
        const std::uint64_t step = looks++ / 2;
        const float number = noise(seed, step / 11, step % 11 < 2 ? step : 0);
        return MemoryReading{.free_bytes = static_cast<std::int64_t>((step % 11 < 2 ? number + 1 : 20) * (1 << 20))};
      };
      SCOPED_TRACE(fmt::format("{} ranks, seed {}", world, seed));
      try {
        const ScriptedRun run = scripted_run(
            world, specs, options,
            {.steps = kSteps, .host = {.local_world = world, .rates = kRates, .seams = {.read_memory = read}}});
        EXPECT_EQ(run.weights, expected.weights);
        EXPECT_EQ(run.norms, expected.norms);
        for (const EngineReport& report : run.reports) {
          EXPECT_LE(report.memory.disk.state(), options.offload.disk_memory);
          if (report.moved_bytes > 0) num_replans += report.replans;
          if (options.offload.host_memory.kind != MemoryBudget::Kind::kBytes) continue;
          EXPECT_LE(report.peak_memory_bytes.host, options.offload.host_memory.bytes);
          num_within_host += report.replans;
        }
      } catch (const Error& error) {
        EXPECT_TRUE(says(error.what(), "zero.")) << error.what();
      }
    }
  }
  EXPECT_GT(num_replans, 50);
  EXPECT_GT(num_within_host, 5);
}

// Each rank by itself would find room, but the second rank's file would not fit after the first. The check precedes the
// creation of any file.
TEST_F(DiskBudgetsSlow, RanksTogetherMustFitTheDisk) {
  constexpr std::int64_t kMiB = 1 << 20;  // bytes of one rank's file
  FailingCalls calls;
  calls.free_bytes = 2 * kMiB - 1;
  const DiskSeam seam{.files = &calls};
  const AttachOptions options = on_disk();
  int local_world = 1;
  const auto run = [&] {
    return scripted_run(2, small_specs(), options,
                        {.host = {.local_world = local_world, .seams = {.disk_seam = &seam}}});
  };
  const ScriptedRun expected = run();
  local_world = 2;
  calls.on_unnamed = -EIO;
  EXPECT_TRUE(says(message_of<Error>(run), "2.00 MiB are needed for files of 2 ranks"));
  calls.on_unnamed = 0;
  calls.free_bytes = 2 * kMiB;
  EXPECT_EQ(run(), expected);
}

// Each engine keeps to its own budget.
TEST_F(DiskBudgetsSlow, TwoEnginesShareAFolder) {
  const ScriptedRun expected = scripted_run(1, small_specs(), {.stage = 3}, {});
  std::array<ScriptedRun, 4> runs;
  {
    std::vector<std::jthread> engines;
    for (ScriptedRun& run : runs) engines.emplace_back([&] { run = scripted_run(1, small_specs(), on_disk(), {}); });
  }
  for (const ScriptedRun& run : runs) EXPECT_EQ(run, expected);
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(DiskBudgetsSlow, OutliveAFolderThatGoesAway) {
  const std::string gone = (folder_.path() / "gone").string();
  std::filesystem::create_directory(gone);
  AttachOptions options = on_disk();
  options.offload.disk = {gone};
  const auto remove = [&](ScriptedModel&, int step) {
    if (step != 1) return;
    EXPECT_TRUE(std::filesystem::remove(gone)) << "its files have no names";
  };
  EXPECT_EQ(scripted_run(1, small_specs(), options, {.before = remove}),
            scripted_run(1, small_specs(), {.stage = 3}, {}));
}

}  // namespace
}  // namespace zero
