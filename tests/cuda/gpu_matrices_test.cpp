// Matrix products and Newton-Schulz iterations on a GPU, bit for bit against the CPU's. Uses ZERO_TEST_DEVICE like
// gpu_test.cpp.
#include <vector>

#include <gtest/gtest.h>

#include "zero/optim/rule_registry.h"
#include "zero/optim/whole/newton_schulz.h"
#include "zero/optim/whole/newton_schulz_kernels.h"

#include "tests/cuda/device_arrays.h"
#include "tests/cuda/on_the_gpu.h"
#include "tests/cuda/random_matrix.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

int num_matrices() {
  return num_trials("ZERO_GPU_SPANS", 40, 2000) / 4;
}

TEST_F(OnTheGpu, MatrixProductMatchesHostBits) {
  Random random(85);
  for (int trial = 0; trial < num_matrices(); ++trial) {
    // Some trials are large enough for the large squares of the kernel.
    const int most = trial % 20 == 19 ? 2500 : 300;
    const std::int64_t rows = 1 + drawn(random, most), columns = 1 + drawn(random, most), inner = 1 + drawn(random, 70);
    RandomProduct expected(random, rows, columns, inner, drawn(random, 2) == 0 ? 0 : 5000);
    RandomProduct actual = expected;
    multiply_on_host(expected.product());
    DeviceArrays arrays(device());
    const auto bring = [&](Elements<float>& values) { return arrays.bring(values.data(), values.size()); };
    const float* const left = bring(actual.left);
    const float* const right = bring(actual.right);
    const float* const addend = bring(actual.addend);
    run_there(kMatrixProduct, actual.product_at(left, right, addend, bring(actual.out)));
    arrays.take_back();
    ASSERT_TRUE(same_values(actual.out, expected.out)) << rows << " x " << columns << " x " << inner;
  }
}

TEST_F(OnTheGpu, NewtonSchulzMatchesHostBits) {
  Random random(86);
  ThreadTeam team(4);
  for (int trial = 0; trial < num_matrices(); ++trial) {
    const int most = trial % 20 == 19 ? 1500 : 200;
    const std::int64_t rows = 1 + drawn(random, most), columns = 1 + drawn(random, most);
    const auto values = static_cast<MatrixValues>(trial % 10 < 4 ? trial % 10 + 1 : 0);
    Elements<float> expected = random_matrix(random, rows, columns, values), actual = expected;
    std::vector<float> workspace(static_cast<std::size_t>(newton_schulz_numel(rows, columns)));
    newton_schulz({}, expected.data(), rows, columns, workspace, team);
    DeviceArrays arrays(device());
    const Allocation there = device().allocate(workspace.size() * sizeof(float));
    queue_newton_schulz(device(), Lane::kUpdate, {}, arrays.bring(actual.data(), actual.size()), rows, columns,
                        {reinterpret_cast<float*>(there.data()), workspace.size()});
    arrays.take_back();
    ASSERT_TRUE(same_values(actual, expected)) << rows << " x " << columns << ", " << static_cast<int>(values);
  }
}

// To the bit.
TEST_F(OnTheGpu, MuonDirectionsAndStepsMatchHost) {
  Random random(87);
  const auto rule = make_update_rule(MuonOptions{});
  for (int trial = 0; trial < num_trials("ZERO_GPU_SPANS", 100, 5000); ++trial) {
    const UpdateScalars scalars{
        .step = 1 + drawn(random, 9), .lr = 1e-2, .gradient_scale = 0.37, .weight_decay = 0.1, .matrix = {40, 10}};
    RandomSpan direct(random, 1, 3000), direct_there = direct, step(random, 0, 3000), step_there = step;
    DeviceArrays arrays(device());
    const auto without_copy = [](UpdateSpan span) {
      span.low_precision = nullptr;
      return span;
    };
    const SpanUpdate directed{arrays.bring(without_copy(direct_there.span())), scalars};
    const SpanUpdate stepped{arrays.bring(step_there.span()), scalars};
    if (direct.numel > 0) {
      rule->matrices()->direct(without_copy(direct.span()), scalars);
      rule->matrices()->queue_directions(device(), Lane::kUpdate, {&directed, 1});
    }
    if (step.numel > 0) {
      rule->update(step.span(), scalars);
      rule->queue(device(), Lane::kUpdate, {&stepped, 1});
    }
    arrays.take_back();
    ASSERT_TRUE(direct_there == direct) << trial;
    ASSERT_TRUE(step_there == step) << trial;
  }
}

}  // namespace
}  // namespace zero
