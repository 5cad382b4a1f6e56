#include "zero/engine/place/rate_probe.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/engine/faulty_disk.h"
#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/memory/failing_calls.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

TEST(RateProbe, RanksAgreeOnTheSlowest) {
  const TemporaryFolder folder;
  const auto rule = make_update_rule(AdamWOptions{});
  std::array<TierRates, 2> rates;
  on_ranks(2, [&](Communicator& comm) {
    const OffloadOptions offload{.disk = {folder.path().string()}, .link_bytes_per_second = 5e9};
    rates[static_cast<std::size_t>(comm.rank())] = probe_rates(&comm, offload, *rule, 1, 16 << 20);
  });
  EXPECT_GT(rates[0].requests.disk.read, 0);
  EXPECT_GT(rates[0].update_numel, 0);
  EXPECT_EQ(rates[0].link_up, 5e9);
  EXPECT_EQ(rates[0].requests.disk.read, rates[1].requests.disk.read);
  EXPECT_EQ(rates[0].requests.disk.write, rates[1].requests.disk.write);
  EXPECT_EQ(rates[0].requests.disk.share, rates[1].requests.disk.share);
  EXPECT_GE(rates[0].requests.disk.share, 0.5);
  EXPECT_LE(rates[0].requests.disk.share, 1);
  EXPECT_EQ(rates[0].update_numel, rates[1].update_numel);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(RateProbe, PlanSkipsAnAbsentDisk) {
  const auto rule = make_update_rule(SgdOptions{});
  const OffloadOptions offload{.disk = {"/no/such/folder"}};
  const TierRates rates = probe_rates(nullptr, offload, *rule, 1, 0);
  EXPECT_EQ(rates.requests.disk.read, 0);
  EXPECT_EQ(rates.requests.disk.share, 1);
  EXPECT_GT(rates.update_numel, 0);
}

TEST(RateProbe, RunRefusesAMissingFolder) {
  const auto rule = make_update_rule(AdamWOptions{});
  on_ranks(1, [&](Communicator& comm) {
    EXPECT_THROW(probe_rates(&comm, {.disk = {"/no/such/folder"}}, *rule, 1, 0), ConfigError);
  });
}

// A failing disk throws IoError.
TEST(RateProbeSlow, FailingDiskLeavesNothing) {
  const TemporaryFolder folder;
  const auto rule = make_update_rule(AdamWOptions{});
  on_ranks(1, [&](Communicator& comm) {
    FaultyDisk counted;
    const OffloadOptions offload{.disk = {folder.path().string()}};
    probe_rates(&comm, offload, *rule, 1, 8 << 20, &counted.seam);
    ASSERT_GT(counted.num_requests(), 100);
    for (int at = 0; at < counted.num_requests(); at += 9) {
      FaultyDisk disk({DiskFault::Kind::kError, at});
      const std::string text = message_of<IoError>([&] { probe_rates(&comm, offload, *rule, 1, 8 << 20, &disk.seam); });
      EXPECT_TRUE(says(text, folder.path().string() + ": " + disk.what_is_said()));
      EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    }
  });
}

TEST(RateProbe, UnknownRoomEndsTheEngineEarly) {
  const TemporaryFolder folder;
  FailingCalls calls;
  const DiskSeam seam{.files = &calls};
  const auto make = [&](Communicator& comm) {
    ScriptedModel(comm, small_specs(), {.stage = 3, .offload = {.disk = {folder.path().string()}}},
                  {.seams = {.disk_seam = &seam}});
  };
  on_ranks(1, [&](Communicator& comm) {
    calls.on_find_room = -EIO;
    EXPECT_EQ(message_of<IoError>([&] { make(comm); }),
              "rank 0: " + folder.path().string() + ": read the free space: Input/output error");
    calls.on_find_room = -ENOENT;
    EXPECT_TRUE(says(message_of<ConfigError>([&] { make(comm); }), "no such folder"));
    calls.on_find_room = 0;
    calls.on_try_folder = -EROFS;
    EXPECT_TRUE(says(message_of<ConfigError>([&] { make(comm); }), "Read-only file system"));
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace zero
