#include "app/report/page/plan_text.h"

#include <gtest/gtest.h>

namespace zero::page {
namespace {

using Bytes = std::array<std::string, 5>;

TEST(PlanText, PlanWithoutTiersIsOnDevice) {
  const auto tiers = planned_tiers(
      "  a rank     parameter    gradient      master      moment       total     formula |       sends     formula\n"
      "  stage 3     1.59 MiB    1.59 MiB         0 B    3.18 MiB    6.37 MiB    6.37 MiB |    4.77 MiB    4.77 MiB\n"
      "  stage 3 sends that much where device_memory keeps no unit\n");
  ASSERT_EQ(tiers.size(), 1U);
  EXPECT_EQ(tiers[0].tier, "device");
  EXPECT_EQ(tiers[0].bytes, (Bytes{"1.59 MiB", "1.59 MiB", "0 B", "3.18 MiB", "6.37 MiB"}));
}

TEST(PlanText, ReadsTiersOfPlan) {
  const auto tiers = planned_tiers(
      "  stage 3     1.59 MiB    1.59 MiB         0 B    3.18 MiB    6.37 MiB    6.37 MiB |    4.77 MiB    4.77 MiB\n"
      "    device    1.59 MiB    1.59 MiB         0 B         0 B    3.18 MiB\n"
      "    host           0 B         0 B         0 B         0 B         0 B\n"
      "    disk           0 B         0 B         0 B    3.20 MiB    3.20 MiB\n");
  ASSERT_EQ(tiers.size(), 3U);
  EXPECT_EQ(tiers[2].tier, "disk");
  EXPECT_EQ(tiers[2].bytes[3], "3.20 MiB");
}

TEST(PlanText, OtherTextHasNone) {
  EXPECT_TRUE(planned_tiers("").empty());
  EXPECT_TRUE(planned_tiers("device of <b>1.59 MiB</b>\nstage\nhost 1 2 3 4 5 6 7 8 9 10\n").empty());
}

}  // namespace
}  // namespace zero::page
