// Twenty steps of update rules on a matrix give the numbers of torch 2.11's optimizers in Python.
#include "tests/optim/torch_numbers.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "zero/optim/rule_registry.h"
#include "zero/optim/whole/newton_schulz.h"

namespace zero {
namespace {

constexpr int kSteps = 20;
constexpr std::int64_t kNumel = 24;
using Values = std::vector<float>;

// The same values as in torch_numbers.py. Step 0: the parameters; later steps: gradients.
Values filled(int step, float scale) {
  Values values;
  for (std::int64_t i = 0; i < kNumel; ++i)
    values.push_back(static_cast<float>((i * i * 7 + i * 37 + step * (3 * i + 11)) % 257 - 128) / 128.0F * scale);
  return values;
}

// The parameters after training. The update treats them as a matrix if `matrix` has rows and the rule updates whole
// matrices.
Values trained(const OptimizerOptions& options, const MatrixShape& matrix) {
  const auto rule = make_update_rule(options);
  Values parameter = filled(0, 1);
  std::vector<Values> states(rule->states().size(), Values(kNumel));
  ThreadTeam team(1);
  for (int step = 1; step <= kSteps; ++step) {
    const Values gradient = filled(step, std::exp2f(static_cast<float>(step % 5) - 3));
    Values directions = gradient;
    const UpdateScalars scalars{
        .step = step, .lr = learning_rate(options), .weight_decay = weight_decay(options), .matrix = matrix};
    UpdateSpan span{.parameter = parameter.data(),
                    .gradient = reinterpret_cast<const std::byte*>(gradient.data()),
                    .numel = kNumel};
    for (std::size_t i = 0; i < states.size(); ++i) span.states[i] = states[i].data();
    if (rule->matrices() != nullptr) {
      UpdateSpan to_direct = span;
      to_direct.parameter = directions.data();
      rule->matrices()->direct(to_direct, scalars);
      Values workspace(static_cast<std::size_t>(newton_schulz_numel(matrix.rows, matrix.columns)));
      rule->matrices()->complete(directions.data(), matrix, workspace, team);
      span.gradient = reinterpret_cast<const std::byte*>(directions.data());
    }
    rule->update(span, scalars);
  }
  return parameter;
}

double apart(const Values& ours, const std::vector<double>& theirs) {
  double most = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) most = std::max(most, std::abs(ours[i] - theirs[i]));
  return most;
}

// Each step rounds numbers up to 1.5: half a unit in the last place (6e-8) each time. Torch may round other
// intermediate values.
constexpr double kRounding = kSteps * 6e-8;

TEST(TorchNumbers, AdamAndAdamWMatchTorch) {
  EXPECT_LE(apart(trained(AdamWOptions{.lr = 0.05, .beta2 = 0.95, .weight_decay = 0.25}, {}), torch_numbers::kAdamW),
            kRounding);
  EXPECT_LE(apart(trained(AdamOptions{.lr = 0.05, .beta2 = 0.95, .weight_decay = 0.25}, {}), torch_numbers::kAdam),
            kRounding);
}

TEST(TorchNumbers, SgdTakesTorchsSteps) {
  EXPECT_LE(apart(trained(SgdOptions{.lr = 0.05, .weight_decay = 0.25}, {}), torch_numbers::kSgd), kRounding);
  EXPECT_LE(apart(trained(SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.25}, {}), torch_numbers::kMomentum),
            kRounding);
  EXPECT_LE(apart(trained(SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.25, .nesterov = true}, {}),
                  torch_numbers::kNesterov),
            kRounding);
}

// Torch computes Newton-Schulz iterations in bf16, zero.cpp in fp32. A bf16 number has 8 bits, and an element of a
// direction is at most about 1.2. Five iterations, which each multiply small singular values by 3.4, give an error of
// about 2^-8. A step multiplies that error by lr. If torch also iterates in fp32, only rounding remains.
TEST(TorchNumbers, MuonMatchesTorch) {
  constexpr double kLr = 0.02;
  const MuonOptions muon{.lr = kLr, .weight_decay = 0.25};
  const Values wide = trained(muon, {.rows = 4, .columns = 6}), tall = trained(muon, {.rows = 6, .columns = 4});
  EXPECT_LE(apart(wide, torch_numbers::kMuonWideInFp32), 2e-6);
  EXPECT_LE(apart(tall, torch_numbers::kMuonTallInFp32), 2e-6);
  const double bf16 = kSteps * kLr * std::exp2(-7);
  EXPECT_LE(apart(wide, torch_numbers::kMuonWide), bf16);
  EXPECT_LE(apart(tall, torch_numbers::kMuonTall), bf16 * std::sqrt(1.5)) << "steps of a tall matrix are longer";
}

}  // namespace
}  // namespace zero
