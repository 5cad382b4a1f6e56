// Training with LAMB. Its steps need norms of whole parameters, and no rank holds these whole.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/plain_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

const Lamb kLamb{.lr = 1e-2, .weight_decay = 0.1};

// Every stage, and stage 3 with states on host and disk.
std::vector<AttachOptions> placements(AttachOptions options, const TemporaryFolder& disk) {
  std::vector<AttachOptions> all = tests::all_stages(options);
  options.stage = 3;
  options.threads = 3;
  options.offload.disk = {disk.path().string()};
  options.offload.fractions = {
      .parameter = {.disk = 1}, .gradient = {.host = 1}, .optimizer = {.host = 0.3, .disk = 0.7}};
  all.push_back(options);
  return all;
}

TEST(Lamb, StagesAndTiersKeepBits) {
  const TemporaryFolder disk;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const AttachOptions options{.optimizer = kLamb, .clip = 0.5, .dtype = dtype};
    const tests::RunResult plain = tests::train_plain(4, options, tests::tied_net);
    const tests::RunResult three = tests::train(3, 4, options, tests::tied_net);
    for (const AttachOptions& placed : placements(options, disk)) {
      EXPECT_TRUE(tests::same_bits(tests::train(1, 4, placed, tests::tied_net).parameters, plain.parameters))
          << "one rank, " << tests::placement_of(placed);
      EXPECT_TRUE(tests::same_bits(tests::train(3, 4, placed, tests::tied_net).parameters, three.parameters))
          << "three ranks, " << tests::placement_of(placed);
    }
  }
}

// The paper's algorithm 2 in double on plain tensors.
TEST(Lamb, AgreesWithHandWrittenRule) {
  constexpr double kLr = 1e-2;
  const tests::RunResult ours = tests::train(2, 40, {.stage = 3, .optimizer = kLamb}, tests::tied_net, kLr);
  torch::manual_seed(7);
  tests::Subject subject = tests::tied_net();
  std::map<std::string, std::array<torch::Tensor, 3>> states;  // by name: parameter, moments
  for (const auto& item : subject.module->named_parameters()) {
    const torch::Tensor value = item.value().detach().to(torch::kFloat64).clone();
    states[item.key()] = {value, torch::zeros_like(value), torch::zeros_like(value)};
  }
  for (int step = 1; step <= 40; ++step) {
    const torch::Tensor loss = (subject.loss(step - 1, 0, 0) + subject.loss(step - 1, 0, 1)) / 2;
    loss.backward();
    for (const auto& item : subject.module->named_parameters()) {
      torch::Tensor tensor = item.value();
      if (!tensor.grad().defined()) continue;
      const torch::Tensor g = tensor.grad().to_dense().to(torch::kFloat64);
      auto& [p, m, v] = states[item.key()];
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      const double decay = tensor.dim() >= 2 ? 0.1 : 0;
      const torch::Tensor u =
          (m / (1 - std::pow(0.9, step))) / ((v / (1 - std::pow(0.999, step))).sqrt() + 1e-8) + decay * p;
      const double ratio = p.norm().item<double>() / u.norm().item<double>();
      p = p - kLr * (std::isfinite(ratio) && ratio > 0 ? std::clamp(ratio, 0.01, 10.0) : 1.0) * u;
      tensor.mutable_grad().reset();
      const torch::NoGradGuard no_grad;
      tensor.copy_(p);
    }
  }
  std::size_t at = 0;
  for (const auto& [name, state] : states) {
    const torch::Tensor& value = ours.parameters.at(at++);
    const double apart = (value.to(torch::kFloat64).reshape({-1}) - state[0].reshape({-1})).norm().item<double>();
    EXPECT_LE(apart, 1e-4 * (1 + state[0].norm().item<double>())) << name;
  }
}

TEST(Lamb, RefusesDelayedUpdates) {
  tests::on_every_rank(1, [](World& ranks) {
    tests::TiedNet net;
    const std::string message =
        message_of<ConfigError>([&] { attach(net, ranks, {.stage = 3, .optimizer = kLamb, .delayed_update = true}); });
    EXPECT_TRUE(says(message, "zero.delayed_update")) << message;
    EXPECT_TRUE(says(message, "lamb needs sums over whole parameters")) << message;
  });
}

}  // namespace
}  // namespace zero
