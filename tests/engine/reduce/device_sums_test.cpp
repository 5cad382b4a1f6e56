// DeviceSums: sums that kernels of a device compute, copied to the host and back.
#include "zero/engine/reduce/device_sums.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/device/recorded_device.h"

namespace zero {
namespace {

struct AddOne {
  SumLimbs* sum;
  double term;
};
void add_one(const AddOne& a) {
  ExactSum sum;
  sum.add(a.term);
  sum.add_to(*a.sum);
}
constexpr Kernel kAddOne = kernel_of<AddOne, &add_one>("add one");

struct AddSent {
  const double* sent;
  SumLimbs* sum;
};
void add_sent(const AddSent& a) {
  add_one({a.sum, *a.sent});
}
constexpr Kernel kAddSent = kernel_of<AddSent, &add_sent>("add the sent value");

// The sums arrive however late the device runs.
TEST(DeviceSums, ReachTheHostAndReturn) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    RecordedDevice device({.late = seed, .far_behind = true});
    Ledger ledger;
    {
      DeviceSums sums(device, ledger, /*most=*/3, /*most_sent=*/2);
      std::vector<ExactSum> taken(3);
      sums.begin(3);
      for (const double term : {0.5, 2.0})
        for (std::size_t i = 0; i < 2; ++i) {
          const auto sum = sums.at(i, 1);
          run(device, Lane::kUpdate, kAddOne, AddOne{sum.data(), term * static_cast<double>(i + 1)}, {changes(sum)});
        }
      taken[2].add(7);
      sums.take(taken);
      EXPECT_EQ(taken[0].value(), 2.5);
      EXPECT_EQ(taken[1].value(), 5);
      EXPECT_EQ(taken[2].value(), 7) << "the host's terms are kept";

      const std::span<const double> there = sums.send(std::vector{taken[0].value(), taken[1].value()});
      follow(device, Lane::kUpdate, Lane::kUp);
      sums.begin(1);
      const auto sum = sums.at(0, 1);
      run(device, Lane::kUpdate, kAddSent, AddSent{&there[1], sum.data()}, {reads(there.subspan(1, 1)), changes(sum)});
      std::vector<ExactSum> again(1);
      sums.take(again);
      EXPECT_EQ(again[0].value(), 5) << "sums begin at zero";
      EXPECT_EQ(ledger.held(Tier::kDevice, MemoryTag::kStaging),
                static_cast<std::int64_t>(3 * sizeof(SumLimbs) + 2 * sizeof(double)));
    }
    EXPECT_EQ(ledger.held(Tier::kDevice, MemoryTag::kStaging) + ledger.held(Tier::kHost, MemoryTag::kStaging), 0);
  }
}

}  // namespace
}  // namespace zero
