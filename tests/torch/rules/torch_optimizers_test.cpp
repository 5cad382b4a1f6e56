// zero.cpp's update rules against libtorch's optimizers: a hundred steps of the same model on the same data. One side
// uses attach() and step(). The other uses backward(), clip_grad_norm_() and torch::optim.
//
// The bits differ, because libtorch adds the norm and the mean over ranks in another order. The tests therefore bound
// |ours - torch| / |torch| over all parameters as one vector. It is 3e-7 with AdamW, which divides by small numbers,
// and 5e-8 with SGD, one rounding of a float (6e-8). --gtest_output=xml records the measured values.
#include <functional>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/torch/training_run.h"

namespace zero {
namespace {

using tests::RunResult;
using tests::Subject;

constexpr int kSteps = 100;
constexpr double kLr = 1e-2;
constexpr double kClip = 0.5;
constexpr double kDecay = 0.1;

struct SmallMlp : torch::nn::Module {
  SmallMlp() : first(10, 24), norm(torch::nn::LayerNormOptions({24})), last(24, 3) {
    register_module("first", first);
    register_module("norm", norm);
    register_module("last", last);
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(norm(torch::tanh(first(x)))); }
  torch::nn::Linear first;
  torch::nn::LayerNorm norm;
  torch::nn::Linear last;
};

// Sixteen rows of numbers between -1 and 1, different at every step and rank. The target is a smooth function of them.
torch::Tensor rows_of(int step, int rank) {
  return (torch::arange(160, torch::kFloat64) * 0.37 + step * 11.3 + rank * 5.1)
      .sin()
      .to(torch::kFloat)
      .reshape({16, 10});
}

torch::Tensor loss_of(SmallMlp& net, int step, int rank) {
  const torch::Tensor rows = rows_of(step, rank);
  const torch::Tensor targets = (rows.narrow(1, 0, 3) * 2).cos() + rows.narrow(1, 3, 3);
  return torch::mse_loss(net.forward(rows), targets);
}

Subject small_mlp() {
  auto net = std::make_shared<SmallMlp>();
  return {net, [net](int step, int /*micro*/, int rank) { return loss_of(*net, step, rank); }};
}

torch::Tensor flat(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> parts;
  for (const torch::Tensor& tensor : tensors) parts.push_back(tensor.detach().to(torch::kFloat64).reshape({-1}));
  return torch::cat(parts);
}

double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

struct TorchRun {
  torch::Tensor start, end;
  std::vector<double> grad_norms;
  int clipped = 0;  // number of steps with a norm above the limit
};

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor> decayed,
                                                                             std::vector<torch::Tensor> others)>;

// Delays gradients by one step: each takes the place of the next gradient, and the last one is applied after all steps.
class Late {
 public:
  void take(std::vector<torch::Tensor> parameters) {
    std::vector<torch::Tensor> kept = std::exchange(kept_, {});
    for (const torch::Tensor& parameter : parameters) kept_.push_back(parameter.grad().clone());
    for (std::size_t i = 0; i < kept.size(); ++i) parameters[i].mutable_grad() = kept[i];
  }
  bool first() const { return kept_.empty(); }

 private:
  std::vector<torch::Tensor> kept_;
};

// Here one loss is the mean over the ranks. The first weights are those of rank 0 in train(). From step `exact_steps`
// on the optimizer receives each gradient one step late.
TorchRun train_with_torch(int world, const MakeOptimizer& make, int exact_steps = kSteps) {
  torch::set_num_threads(1);
  torch::manual_seed(7);
  SmallMlp net;
  std::vector<torch::Tensor> decayed, others;
  for (const torch::Tensor& parameter : net.parameters())
    (parameter.dim() >= 2 ? decayed : others).push_back(parameter);
  const auto optimizer = make(decayed, others);
  Late late;
  TorchRun run{.start = flat(net.parameters()).clone(), .end = {}, .grad_norms = {}};
  for (int step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    torch::Tensor loss = torch::zeros({});
    for (int rank = 0; rank < world; ++rank) loss = loss + loss_of(net, step, rank) / world;
    loss.backward();
    const double norm = torch::nn::utils::clip_grad_norm_(net.parameters(), kClip);
    run.grad_norms.push_back(norm);
    run.clipped += norm > kClip;
    const bool waits = step >= exact_steps && late.first();
    if (step >= exact_steps) late.take(net.parameters());
    if (!waits) optimizer->step();
  }
  if (!late.first()) {
    late.take(net.parameters());
    optimizer->step();
  }
  run.end = flat(net.parameters());
  return run;
}

// Compares a hundred steps at stage 0 on one rank (stage 2 if some updates are delayed), and at stage 3 on two ranks.
void expect_as_torch(const OptimizerOptions& optimizer, const MakeOptimizer& make, double bound,
                     int exact_steps = kSteps) {
  const bool delayed = exact_steps < kSteps;
  for (const auto& [stage, world] : {std::pair{delayed ? 2 : 0, 1}, {3, 2}}) {
    const TorchRun expected = train_with_torch(world, make, exact_steps);
    const RunResult seen = tests::train(
        world, kSteps,
        {.stage = stage, .optimizer = optimizer, .clip = kClip, .delayed_update = delayed, .exact_steps = exact_steps},
        small_mlp, kLr);
    const std::string where = "stage " + std::to_string(stage) + " on " + std::to_string(world);

    const double difference = distance(flat(seen.given_back), expected.end);
    EXPECT_LE(difference, bound) << where;
    ::testing::Test::RecordProperty("stage_" + std::to_string(stage), fmt::format("{:.1e}", difference));
    for (std::size_t step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(seen.grad_norms[step], expected.grad_norms[step], 2e-4 * expected.grad_norms[step])
          << where << ", step " << step;
    }

    // The comparison is meaningful: the weights moved far, and some steps were clipped and some were not.
    EXPECT_GT(distance(expected.start, expected.end), 0.1);
    EXPECT_GT(expected.clipped, 0);
    EXPECT_LT(expected.clipped, kSteps);
  }
}

// The first group has weight decay, the second has none.
template <typename Optimizer, typename Options>
MakeOptimizer in_two_groups(Options options) {
  return [options](std::vector<torch::Tensor> decayed, std::vector<torch::Tensor> others) {
    Options without = options;
    without.weight_decay(0);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::move(decayed), std::make_unique<Options>(options));
    groups.emplace_back(std::move(others), std::make_unique<Options>(without));
    return std::make_unique<Optimizer>(std::move(groups), options);
  };
}

TEST(TorchAdamW, AgreesOverAHundredSteps) {
  const auto theirs = torch::optim::AdamWOptions(kLr).betas({0.9, 0.95}).eps(1e-8).weight_decay(kDecay);
  expect_as_torch(AdamW{.lr = kLr, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = kDecay},
                  in_two_groups<torch::optim::AdamW>(theirs), 1e-6);
}

// Each gradient is applied one step late.
TEST(TorchAdamW, DelayedGradientsAgree) {
  const auto theirs = torch::optim::AdamWOptions(kLr).betas({0.9, 0.95}).eps(1e-8).weight_decay(kDecay);
  expect_as_torch(AdamW{.lr = kLr, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = kDecay},
                  in_two_groups<torch::optim::AdamW>(theirs), 1e-6, /*exact_steps=*/10);
}

TEST(TorchSgd, MomentumAgreesOverHundredSteps) {
  const auto theirs = torch::optim::SGDOptions(kLr).momentum(0.9).weight_decay(kDecay);
  expect_as_torch(Sgd{.lr = kLr, .momentum = 0.9, .weight_decay = kDecay}, in_two_groups<torch::optim::SGD>(theirs),
                  2e-7);
}

// For each rule.
TEST(UpdateRules, StagesKeepBits) {
  for (const OptimizerOptions& optimizer :
       {OptimizerOptions(Adam{.weight_decay = kDecay}), OptimizerOptions(Lion{.weight_decay = kDecay}),
        OptimizerOptions(Sgd{.momentum = 0.9, .nesterov = true}), OptimizerOptions(Lamb{.weight_decay = kDecay})}) {
    torch::Tensor expected;
    for (const int stage : {0, 1, 2, 3}) {
      const RunResult seen =
          tests::train(2, 5, {.stage = stage, .optimizer = optimizer, .clip = kClip}, small_mlp, kLr);
      if (!expected.defined()) expected = flat(seen.given_back);
      EXPECT_TRUE(torch::equal(flat(seen.given_back), expected)) << name_of(optimizer) << ", stage " << stage;
    }
  }
}

TEST(TorchSgd, NesterovAgreesOverHundredSteps) {
  const auto theirs = torch::optim::SGDOptions(kLr).momentum(0.9).nesterov(true).weight_decay(kDecay);
  expect_as_torch(Sgd{.lr = kLr, .momentum = 0.9, .weight_decay = kDecay, .nesterov = true},
                  in_two_groups<torch::optim::SGD>(theirs), 2e-7);
}

TEST(TorchAdam, CoupledDecayAgreesOverHundredSteps) {
  const auto theirs = torch::optim::AdamOptions(kLr).betas({0.9, 0.95}).eps(1e-8).weight_decay(kDecay);
  expect_as_torch(Adam{.lr = kLr, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = kDecay},
                  in_two_groups<torch::optim::Adam>(theirs), 1e-6);
}

}  // namespace
}  // namespace zero
