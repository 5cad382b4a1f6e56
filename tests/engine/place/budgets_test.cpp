#include "zero/engine/place/budgets.h"

#include <limits>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/in_process.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/plan/units/partition.h"

#include "tests/engine/block_specs.h"
#include "tests/engine/thread_ranks.h"
#include "tests/memory/failing_calls.h"
#include "tests/support/fp32_states.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

MemoryBudget in_bytes(std::int64_t bytes) {
  return {MemoryBudget::Kind::kBytes, bytes};
}

// A rank that holds all states of a model, and a disk folder with 100 MiB free.
class BudgetsTest : public ::testing::Test {
 protected:
  BudgetsTest() { calls_.free_bytes = 100 * kMiB; }

  Budgets budgets(const AttachOptions& options, EngineHost host = {}, bool uses_disk = true) {
    host.seams.disk_seam = &seam_;
    return {ranks_[0].get(), options, uses_disk, host};
  }
  std::int64_t largest_unit() const {
    std::int64_t bytes = 0;
    for (const Unit& unit : model_.units) bytes = std::max(bytes, gathered_bytes(unit, 1));
    return bytes;
  }
  Placement away() const { return away_from_device(model_.placement, model_.units, 1, Tier::kDisk); }
  std::int64_t working(bool minimum) const { return working_bytes(model_.units, 1, away(), minimum); }
  std::int64_t tiles(int depth) const { return tile_bytes(model_.units, 1, away(), model_.optimizer, depth); }

  const StepModel model_{.units = make_units(block_specs(DType::kFloat32), {}),
                         .placement = place(3, Reduce::kAuto, 1),
                         .optimizer = fp32_states(2)};
  std::vector<std::unique_ptr<Communicator>> ranks_ = make_in_process(1, std::chrono::seconds(60));
  TemporaryFolder folder_;
  std::vector<std::string> disk_{folder_.path().string()};
  FailingCalls calls_;
  DiskSeam seam_{.files = &calls_};
};

TEST_F(BudgetsTest, DeviceBytesExcludeGatheredAndStaging) {
  const AttachOptions options{.device_memory = in_bytes(64 * kMiB)};
  const Budgets seen = budgets(options);
  EXPECT_EQ(seen.of_states(model_, /*min_budget=*/false).device, 64 * kMiB - working(false));
  EXPECT_EQ(seen.of_states(model_, /*min_budget=*/true).device, 64 * kMiB - working(true));
  EXPECT_LT(working(true), working(false));
}

// If the device has its own memory, the host may use all memory of the machine.
TEST_F(BudgetsTest, SeparateDeviceHasItsOwnBudgets) {
  const EngineHost apart{.free_device_bytes = [] { return 500 * kMiB; }, .ranks_on_device = 2};
  const AttachOptions automatic{};
  const Budgets seen = budgets(automatic, apart);
  EXPECT_EQ(seen.room().device, 200 * kMiB) << "each rank gets half, and a fifth of that stays free";
  EXPECT_GT(seen.room().host, 0);
  EXPECT_EQ(seen.of_states(model_, /*min_budget=*/false).device, 200 * kMiB - working(false) - 2 * largest_unit());
  EngineHost known = apart;
  known.beside_on_device = 100 * kMiB;
  EXPECT_EQ(budgets(automatic, known).room().device, 250 * kMiB - 250 * kMiB / 32 - 100 * kMiB)
      << "in place of a fifth";
  EXPECT_EQ(budgets(automatic, known).of_states(model_, /*min_budget=*/false).device,
            budgets(automatic, known).room().device - working(false))
      << "the operators' memory includes autograd's";
  known.beside_on_device = 300 * kMiB;
  EXPECT_EQ(budgets(automatic, known).room().device, 0);
  EXPECT_TRUE(seen.host_takes_the_rest());
  EXPECT_FALSE(budgets(automatic).host_takes_the_rest()) << "here device and host share main memory";
  const AttachOptions in_bytes_there{.device_memory = in_bytes(64 * kMiB)};
  const Budgets fixed = budgets(in_bytes_there, apart);
  EXPECT_EQ(fixed.of_states(model_, /*min_budget=*/false).device, 64 * kMiB - working(false));
  EXPECT_GE(fixed.of_states(model_, /*min_budget=*/false).host, fixed.room().host - tiles(OffloadTiers::kDefaultDepth))
      << "the device takes no host memory";
}

// A plan for an unspecified machine, whose device has its own memory.
TEST_F(BudgetsTest, UnlimitedBudgetsAddUp) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const AttachOptions options{.offload = {.disk = disk_, .disk_memory = kMost}};
  EngineHost host{.device_is_elsewhere = true};
  host.seams.disk_seam = &seam_;
  const TierBudgets found = Budgets(nullptr, options, /*uses_disk=*/true, host).of_states(model_, /*min_budget=*/true);
  for (const Tier tier : kAllTiers) EXPECT_GT(found[tier], kMost / 8) << name_of(tier);
  EXPECT_GT(found.total(), found.disk);
}

// The refusal names the amount that would fit.
TEST_F(BudgetsTest, RefusesMoreThanTheDeviceHas) {
  const EngineHost apart{.free_device_bytes = [] { return 8 * kMiB; }};
  const AttachOptions options{.device_memory = in_bytes(1 << 30)};
  const std::string said = message_of<ConfigError>(
      [&] { budgets(options, apart).require_memory(model_, model_.placement, {.device = 100 * kMiB}); });
  EXPECT_NE(said.find("of the device's memory"), std::string::npos) << said;
}

// The budget excludes one tile that is in transfer to the disk.
TEST_F(BudgetsTest, HostBytesExcludeATile) {
  AttachOptions options{.device_memory = in_bytes(kMiB), .offload = {.host_memory = in_bytes(64 * kMiB)}};
  EXPECT_EQ(budgets(options).of_states(model_, true).host, 64 * kMiB) << "there is no disk";
  options.offload.disk = disk_;
  EXPECT_EQ(budgets(options).of_states(model_, true).host, 64 * kMiB - tiles(1));
  options.offload.host_memory = in_bytes(1);
  EXPECT_EQ(budgets(options).of_states(model_, true).host, 0) << "a budget without room for a tile is 0";
}

// The host's automatic budget is the memory that the device, activations and autograd leave free.
TEST_F(BudgetsTest, AutoHostTakesTheRest) {
  const AttachOptions options{.device_memory = in_bytes(3 * kMiB)};
  const Budgets seen = budgets(options, {.activation_bytes = {.host = 5 * kMiB}});
  EXPECT_TRUE(seen.host_takes_the_rest());
  EXPECT_EQ(seen.of_states(model_, true).host, seen.room().device - 8 * kMiB - 2 * largest_unit());
}

// The device shares main memory with the host.
TEST_F(BudgetsTest, AutoDeviceSharesMainMemory) {
  const AttachOptions options{.offload = {.host_memory = in_bytes(kMiB)}};
  const Budgets seen = budgets(options, {.activation_bytes = {.host = 5 * kMiB}});
  EXPECT_FALSE(seen.host_takes_the_rest());
  EXPECT_EQ(seen.of_states(model_, true).device, seen.room().device - 6 * kMiB - working(true) - 2 * largest_unit());
}

// Each rank gets an equal share of nine tenths of the free space.
TEST_F(BudgetsTest, UnlimitedDiskSharesFreeSpace) {
  const AttachOptions options{.offload = {.disk = disk_}};
  const Budgets seen = budgets(options, {.local_world = 2});
  EXPECT_EQ(seen.room().disk, 100 * kMiB / 10 * 9 / 2);
  EXPECT_EQ(seen.of_states(model_, true).disk, seen.room().disk);
  EXPECT_EQ(seen.free_disk().folders, disk_[0]);
  EXPECT_EQ(seen.free_disk().ranks, 2);
}

TEST_F(BudgetsTest, LimitedDiskIsNotInspected) {
  const AttachOptions options{.offload = {.disk = {"/no/such/folder"}, .disk_memory = 7 * kMiB}};
  const Budgets seen = budgets(options);
  EXPECT_EQ(seen.room().disk, 7 * kMiB);
  EXPECT_EQ(seen.free_disk().folders, "");
}

TEST_F(BudgetsTest, UnusedDiskIsNotInspected) {
  const AttachOptions options{.offload = {.disk = {"/no/such/folder"}}};
  EXPECT_EQ(budgets(options, {}, /*uses_disk=*/false).room().disk, 0);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { budgets(options); }), "/no/such/folder"));
}

TEST_F(BudgetsTest, PlanIgnoresThisMachinesLimits) {
  const AttachOptions options{.offload = {.disk = {"/no/such/folder"}}};
  const Budgets seen(nullptr, options, true, {});
  EXPECT_GT(seen.room().device, std::int64_t{1} << 60);
  EXPECT_GT(seen.room().disk, std::int64_t{1} << 60);
}

// All ranks take the smallest of their budgets.
TEST_F(BudgetsTest, AllRanksTakeTheLeast) {
  const AttachOptions options{.device_memory = in_bytes(kMiB)};
  std::vector<TierBudgets> seen(2);
  std::int64_t free_bytes = 0;
  on_ranks(2, [&](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    const Budgets own(&comm, options, false, {.local_world = 2, .activation_bytes = {.host = comm.rank() * kMiB}});
    seen[rank] = own.of_states(model_, true);
    if (rank == 0) free_bytes = own.room().device;
  });
  EXPECT_EQ(seen[0].host, free_bytes - 2 * kMiB - 2 * largest_unit()) << "rank 1's activations count";
  EXPECT_EQ(seen[0].host, seen[1].host);
}

// States and activations on the host count as memory of the machine.
TEST_F(BudgetsTest, HostStatesAndActivationsCount) {
  const AttachOptions options{.device_memory = in_bytes(64 * kMiB)};
  const auto refusal = [&](std::int64_t on_host, std::int64_t activations) {
    return message_of<ConfigError>([&] {
      budgets(options, {.activation_bytes = {.host = activations}})
          .require_memory(model_, model_.placement, {.host = on_host});
    });
  };
  constexpr std::int64_t kTooMuch = std::int64_t{1} << 50;
  for (const std::string& text : {refusal(kTooMuch, 0), refusal(0, kTooMuch)}) {
    EXPECT_TRUE(says(text, "zero.device_memory"));
    EXPECT_TRUE(says(text, "a rank would hold 1.00 PiB of this machine's memory")) << text;
  }
}

}  // namespace
}  // namespace zero
