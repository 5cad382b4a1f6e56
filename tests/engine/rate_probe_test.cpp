#include "zero/engine/rate_probe.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "../temporary_folder.h"
#include "thread_ranks.h"

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
  EXPECT_GT(rates[0].disk_read, 0);
  EXPECT_GT(rates[0].update_numel, 0);
  EXPECT_EQ(rates[0].link_up, 5e9);
  EXPECT_EQ(rates[0].disk_read, rates[1].disk_read);
  EXPECT_EQ(rates[0].disk_write, rates[1].disk_write);
  EXPECT_EQ(rates[0].update_numel, rates[1].update_numel);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(RateProbe, ADiskThatIsNotHereHasNoRateWhereOneOnlyPlans) {
  const auto rule = make_update_rule(SgdOptions{});
  const OffloadOptions offload{.disk = {"/no/such/folder"}};
  const TierRates rates = probe_rates(nullptr, offload, *rule, 1, 0);
  EXPECT_EQ(rates.disk_read, 0);
  EXPECT_GT(rates.update_numel, 0);
}

TEST(RateProbe, AFolderThatIsMissingIsRefusedWhereOneRuns) {
  const auto rule = make_update_rule(AdamWOptions{});
  on_ranks(1, [&](Communicator& comm) {
    EXPECT_THROW(probe_rates(&comm, {.disk = {"/no/such/folder"}}, *rule, 1, 0), ConfigError);
  });
}

}  // namespace
}  // namespace zero
