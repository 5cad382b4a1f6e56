#include "plugins/gloo/waiters.h"

#include <array>
#include <latch>

#include <gtest/gtest.h>

namespace zero_gloo {
namespace {

using Status = Waiters::Status;
constexpr std::chrono::hours kNever{1};

TEST(Waiters, WaitIsLateUntilItEnds) {
  Waiters waiters;
  std::latch goes_on(1);
  const auto wait = waiters.begin([&] {
    goes_on.wait();
    return Status::kGone;
  });
  EXPECT_EQ(wait->status(), Status::kLate);
  EXPECT_EQ(wait->status_after(std::chrono::milliseconds(1)), Status::kLate);
  goes_on.count_down();
  EXPECT_EQ(wait->status_after(kNever), Status::kGone);
  EXPECT_EQ(wait->status(), Status::kGone);
}

// The second wait ends first, which shows that the waits run at the same time.
TEST(Waiters, WaitsAreUnderWayTogether) {
  Waiters waiters;
  std::latch first_ends(1);
  const auto first = waiters.begin([&] {
    first_ends.wait();
    return Status::kDone;
  });
  const auto second = waiters.begin([] { return Status::kDone; });
  EXPECT_EQ(second->status_after(kNever), Status::kDone);
  EXPECT_EQ(first->status(), Status::kLate);
  first_ends.count_down();
  first->finish();
  EXPECT_EQ(first->status(), Status::kDone);
}

TEST(Waiters, ManyConsecutiveWaitsEnd) {
  Waiters waiters;
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(waiters.begin([] { return Status::kDone; })->status_after(kNever), Status::kDone);
}

}  // namespace
}  // namespace zero_gloo
