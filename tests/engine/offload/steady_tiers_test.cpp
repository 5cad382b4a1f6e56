// Steady memory on three tiers: ten thousand steps hold as much as a hundred steps. Blocks are reused, and no memory is
// lost.
#include <gtest/gtest.h>

#include "zero/base/process/process_memory.h"
#include "zero/memory/io/file_calls.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kMostGrowth = 2 * kMiB;  // growth of the process

struct Held {
  std::array<std::int64_t, kNumTiers> held{}, peak{};
};

// The peak may have one more staged block, depending on the speed of the disk.
void expect_steady(const Held& later, const Held& early) {
  constexpr std::int64_t kBlock = TileStream::kTileNumel * 4;
  EXPECT_EQ(later.held, early.held);
  for (const Tier tier : kAllTiers) {
    const auto index = static_cast<std::size_t>(tier);
    EXPECT_LE(later.peak[index], early.peak[index] + (tier == Tier::kHost ? kBlock : 0)) << name_of(tier);
  }
}

Held held_by(RankEngine& engine) {
  Held all;
  for (const Tier tier : kAllTiers) {
    all.held[static_cast<std::size_t>(tier)] = engine.resources().ledger.held(tier).total();
    all.peak[static_cast<std::size_t>(tier)] = engine.resources().ledger.peak_total(tier);
  }
  return all;
}

// Requests to a disk in memory take almost no time.
std::string folder_for(const TemporaryFolder& folder) {
  return FileCalls::kernel().try_folder("/dev/shm") == 0 ? "/dev/shm" : folder.path().string();
}

class SteadyTiers : public testing::Test {
 protected:
  void SetUp() override {
    if (built::kSanitized) GTEST_SKIP() << "sanitizers keep memory that was freed";
  }
};

// Ten thousand steps in the full tier.
using SteadyTiersSlow = SteadyTiers;

TEST_F(SteadyTiersSlow, ThousandsOfStepsKeepTheirMemory) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    const StateFractions fractions{
        .parameter = {.host = 0.5, .disk = 0.5}, .gradient = {.host = 1}, .optimizer = {.disk = 1}};
    ScriptedModel model(
        comm, small_specs(),
        {.stage = 3, .clip = 1, .offload = {.fractions = fractions, .disk = {folder_for(folder)}, .checksums = true}});
    Held early;
    std::int64_t resident = 0;
    const int num_steps = in_full_tier() ? 10000 : 500;
    for (int step = 1; step <= num_steps; ++step) {
      model.train(step % 1000);
      if (step == 100) early = held_by(model.engine());
      if (step == num_steps / 2) resident = resident_bytes();
    }
    expect_steady(held_by(model.engine()), early);
    for (const std::int64_t held : early.held) EXPECT_GT(held, 0) << "each tier has a part";
    EXPECT_LT(resident_bytes() - resident, kMostGrowth);
    EXPECT_EQ(model.engine().report().trace_mismatches, 0);
  });
}

// Memory is repeatedly short and free again (250 times in the full tier). States go to the disk and return.
TEST_F(SteadyTiersSlow, ManyMovesKeepTheirMemory) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    constexpr int kPeriod = 20;
    const int num_moves = in_full_tier() ? 250 : 40;
    int step = 1;
    OffloadOptions offload{.disk = {folder_for(folder)}};
    offload.monitor = {.reserve_bytes = kMiB, .period = std::chrono::milliseconds(0)};
    const auto read = [&] { return MemoryReading{.free_bytes = step % kPeriod == 3 ? 0 : 20 * kMiB}; };
    ScriptedModel model(comm, small_specs(), {.stage = 3, .offload = offload},
                        {.local_world = 2,
                         .rates = {.requests = {.disk = {.read = 1e9, .write = 1e9}}, .update_numel = 1e9},
                         .seams = {.read_memory = read}});
    Held early;
    std::int64_t resident = 0;
    for (; step <= num_moves * kPeriod; ++step) {
      model.train(step % 1000);
      if (step == 10 * kPeriod) early = held_by(model.engine());
      if (step == num_moves / 2 * kPeriod) resident = resident_bytes();
    }
    expect_steady(held_by(model.engine()), early);
    EXPECT_GE(model.engine().report().replans, 2 * (num_moves - 1));
    EXPECT_LT(resident_bytes() - resident, kMostGrowth);
  });
}

}  // namespace
}  // namespace zero
