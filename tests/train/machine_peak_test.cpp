#include "zero/train/machine_peak.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(MachinePeak, IsThatOfAComputer) {
  const double flops = probe_matmul_flops();
  EXPECT_GT(flops, 1e6) << "slower than any machine that runs this";
  EXPECT_LT(flops, 1e16) << "faster than a rack: the clock or the count is wrong";
}

}  // namespace
}  // namespace zero
