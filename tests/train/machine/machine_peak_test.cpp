#include "app/train/machine/machine_peak.h"

#include <gtest/gtest.h>

#include "zero/optim/whole/muon_rule.h"

namespace zero {
namespace {

TEST(MachinePeak, IsThatOfAComputer) {
  const double flops = probe_matmul_flops();
  EXPECT_GT(flops, 1e6) << "slower than any machine that runs this";
  EXPECT_LT(flops, 1e16) << "faster than a rack: the clock or the count is wrong";
}

TEST(MachinePeak, MuonProbesEachMatrixShape) {
  const auto rule = make_rule(MuonOptions{});
  const auto seconds = [&](const MatrixShape& matrix) {
    return probe_completion_seconds(*rule->matrices(), matrix, 1);
  };
  const double small = seconds({48, 40}), large = seconds({160, 400});
  EXPECT_GT(small, 0);
  EXPECT_GT(large, 4 * small) << "the matrix has more than a hundred times the operations";
  // For a matrix that would take long, a smaller one is probed.
  EXPECT_GT(seconds({3200, 3200}), 100 * large);
}

}  // namespace
}  // namespace zero
