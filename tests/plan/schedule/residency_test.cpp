#include "zero/plan/schedule/residency.h"

#include <set>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/plan/schedule/schedule.h"

#include "tests/plan/gpt_like.h"

namespace zero {
namespace {

TEST(Residency, CountsPaddedHeldBytes) {
  const auto units = gpt_units({.layers = 1, .width = 10});
  Residency resident(units, 3);
  EXPECT_EQ(resident.bytes(), 0);
  resident.add(2);
  resident.add(0);
  EXPECT_EQ(resident.bytes(), gathered_bytes(units[2], 3) + gathered_bytes(units[0], 3));
  EXPECT_EQ(resident.units(), (std::vector<int>{0, 2}));
  EXPECT_TRUE(resident.holds(2));
  EXPECT_FALSE(resident.holds(1));
  resident.remove(2);
  EXPECT_EQ(resident.bytes(), resident.bytes_of(0));
}

TEST(Residency, DoubleGatherOrReleaseIsBug) {
  Residency resident(gpt_units({}), 2);
  EXPECT_THROW(resident.remove(1), InternalError);
  resident.add(1);
  EXPECT_THROW(resident.add(1), InternalError);
  resident.remove(1);
  EXPECT_THROW(resident.remove(1), InternalError);
  EXPECT_EQ(resident.bytes(), 0);
}

RC_GTEST_PROP(Residency, AgreesWithASet, ()) {
  const auto units = gpt_units({.layers = 5});
  const int world = *rc::gen::inRange(1, 20);
  Residency resident(units, world);
  std::set<int> held;
  const auto toggles = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, static_cast<int>(units.size())));
  for (const int unit : toggles) {
    if (held.erase(unit) > 0) {
      resident.remove(unit);
    } else {
      held.insert(unit);
      resident.add(unit);
    }
    std::int64_t bytes = 0;
    for (const int each : held) bytes += gathered_bytes(units[static_cast<std::size_t>(each)], world);
    RC_ASSERT(resident.bytes() == bytes);
    RC_ASSERT(resident.units() == std::vector<int>(held.begin(), held.end()));
  }
}

}  // namespace
}  // namespace zero
