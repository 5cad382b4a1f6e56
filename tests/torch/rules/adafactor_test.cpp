// Training with Adafactor. Its steps need sums over rows, columns and whole parameters, and no rank holds these whole.
#include <array>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

constexpr double kLr = 5e-2;
const Adafactor kAdafactor{.lr = kLr, .weight_decay = 0.1};

TEST(AdafactorOfAModule, StagesAndTiersKeepBits) {
  const TemporaryFolder disk;
  const AttachOptions options{.stage = 0, .optimizer = kAdafactor, .clip = 0.5, .ema = 0.9, .dtype = DType::kBFloat16};
  std::vector<AttachOptions> placed = tests::all_stages(options);
  placed.push_back(options);
  placed.back().stage = 3;
  placed.back().threads = 3;
  placed.back().offload.disk = {disk.path().string()};
  placed.back().offload.fractions = {
      .parameter = {.disk = 1}, .gradient = {.host = 1}, .optimizer = {.host = 0.3, .disk = 0.7}};
  for (const int world : {1, 3}) {
    const tests::RunResult first = tests::train(world, 4, options, tests::tied_net, kLr);
    for (const AttachOptions& each : placed) {
      const tests::RunResult seen = tests::train(world, 4, each, tests::tied_net, kLr);
      EXPECT_TRUE(tests::same_bits(seen.parameters, first.parameters))
          << world << " ranks, " << tests::placement_of(each);
      for (const EngineReport& report : seen.reports)
        EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << tests::placement_of(each);
    }
  }
}

// The step of torch.optim.Adafactor in double. Rows are the first dimension, and columns are all other dimensions.
class ByHand {
 public:
  explicit ByHand(const torch::nn::Module& module) {
    for (const auto& item : module.named_parameters()) {
      const torch::Tensor value = item.value().detach().to(torch::kFloat64).clone();
      const torch::Tensor matrix = matrix_of(value);
      states_[item.key()] = {value, torch::zeros_like(matrix.select(1, 0)), torch::zeros_like(matrix.select(0, 0))};
    }
  }
  void step(const std::string& name, const torch::Tensor& gradient, int step) {
    auto& [p, row_var, col_var] = states_.at(name);
    const torch::Tensor g = matrix_of(gradient.to_dense().to(torch::kFloat64));
    const double weight = std::pow(step, -0.8);
    row_var = row_var + weight * (g.square().mean(1) - row_var);
    col_var = col_var + weight * (g.square().mean(0) - col_var);
    // A vector has a single column, and its elements are its rows.
    const bool factored = p.dim() > 1;
    const torch::Tensor v =
        factored ? torch::outer(row_var, col_var) / row_var.mean().clamp_min(kEps) : row_var.unsqueeze(1);
    const torch::Tensor u = g / v.clamp_min(kEps * kEps).sqrt();
    const auto rms = [](const torch::Tensor& t) { return t.square().mean().sqrt().item<double>(); };
    const double alpha = std::max(1e-3, rms(p)) * std::min(kLr, 1 / std::sqrt(step));
    p = p * (1 - kLr * (factored ? kAdafactor.weight_decay : 0)) -
        (alpha / std::max(1.0, rms(u)) * u).reshape(p.sizes());
  }
  const std::array<torch::Tensor, 3>& of(const std::string& name) const { return states_.at(name); }

 private:
  static constexpr double kEps = std::numeric_limits<float>::epsilon();
  static torch::Tensor matrix_of(const torch::Tensor& tensor) {
    return tensor.reshape({tensor.dim() == 0 ? 1 : tensor.size(0), -1});
  }
  std::map<std::string, std::array<torch::Tensor, 3>> states_;  // by name: parameter, rows, columns
};

// The hand-written rule computes in double.
TEST(AdafactorOfAModule, AgreesWithHandWrittenRule) {
  constexpr int kSteps = 20;
  const tests::RunResult ours = tests::train(2, kSteps, {.stage = 3, .optimizer = kAdafactor}, tests::tied_net, kLr);
  torch::manual_seed(7);
  tests::Subject subject = tests::tied_net();
  ByHand by_hand(*subject.module);
  for (int step = 1; step <= kSteps; ++step) {
    const torch::Tensor loss = (subject.loss(step - 1, 0, 0) + subject.loss(step - 1, 0, 1)) / 2;
    loss.backward();
    for (const auto& item : subject.module->named_parameters()) {
      torch::Tensor tensor = item.value();
      if (!tensor.grad().defined()) continue;
      by_hand.step(item.key(), tensor.grad(), step);
      tensor.mutable_grad().reset();
      const torch::NoGradGuard no_grad;
      tensor.copy_(by_hand.of(item.key())[0]);
    }
  }
  std::map<std::string, torch::Tensor> by_name;
  for (const auto& item : subject.module->named_parameters()) by_name[item.key()] = item.value();
  std::size_t at = 0;
  for (const auto& [name, value] : by_name) {
    const torch::Tensor p = by_hand.of(name)[0];
    const double apart =
        (ours.parameters.at(at++).to(torch::kFloat64).reshape({-1}) - p.reshape({-1})).norm().item<double>();
    EXPECT_LE(apart, 1e-4 * (1 + p.norm().item<double>())) << name;
  }
}

TEST(AdafactorOfAModule, SaysItsStatesByName) {
  tests::on_every_rank(2, [](World& ranks) {
    tests::TiedNet net;
    auto engine = attach(net, ranks, {.stage = 3, .optimizer = kAdafactor});
    int num_matrices = 0;
    for (const ParamSpec& spec : engine.parameters()) {
      const bool matrix = spec.shape.size() > 1;
      const std::vector<std::string> names = engine.state_names(spec.name);
      if (!matrix) {
        EXPECT_EQ(names, (std::vector<std::string>{"parameter", "variance"})) << spec.name;
        continue;
      }
      ++num_matrices;
      EXPECT_EQ(names, (std::vector<std::string>{"parameter", "row_var", "col_var"})) << spec.name;
      EXPECT_EQ(engine.full_state(spec.name, "row_var").numel(), spec.shape.front());
      EXPECT_EQ(engine.full_state(spec.name, "col_var").numel(), spec.numel() / spec.shape.front());
    }
    EXPECT_GT(num_matrices, 0);
  });
}

}  // namespace
}  // namespace zero
