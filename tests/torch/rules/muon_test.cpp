// Training with Muon. Its steps need whole matrices, and each rank holds only a part of them.
#include <array>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::RunResult;
using tests::same_bits;

constexpr double kLr = 1e-2;
const Muon kMuon{.lr = kLr, .weight_decay = 0.1, .adamw = {.lr = 2e-2}};

// Every stage, and stages 2 and 3 with states on host and disk.
std::vector<AttachOptions> placements(AttachOptions options, const TemporaryFolder& disk) {
  std::vector<AttachOptions> all = tests::all_stages(options);
  options.threads = 3;
  options.offload.disk = {disk.path().string()};
  options.stage = 2;
  options.offload.fractions = {.gradient = {.host = 1}, .optimizer = {.host = 0.3, .disk = 0.7}};
  all.push_back(options);
  options.stage = 3;
  options.offload.fractions.parameter = {.disk = 1};
  all.push_back(options);
  return all;
}

void expect_same_bits_everywhere(const AttachOptions& options) {
  const TemporaryFolder disk;
  for (const int world : {1, 2, 3}) {
    const RunResult first = tests::train(world, 4, options, tests::tied_net, kLr);
    for (const AttachOptions& placed : placements(options, disk)) {
      const RunResult seen = tests::train(world, 4, placed, tests::tied_net, kLr);
      EXPECT_TRUE(same_bits(seen.parameters, first.parameters)) << world << " ranks, " << tests::placement_of(placed);
      EXPECT_EQ(seen.grad_norms, first.grad_norms);
      for (const EngineReport& report : seen.reports)
        EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << tests::placement_of(placed);
    }
  }
}

TEST(Muon, StagesAndTiersKeepBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    expect_same_bits_everywhere({.stage = 0, .optimizer = kMuon, .clip = 0.5, .dtype = dtype});
}

// With micro-batches and an average of the weights.
TEST(Muon, MicroBatchesAndAverageKeepBits) {
  expect_same_bits_everywhere({.stage = 0, .optimizer = kMuon, .accumulate = 2, .ema = 0.9});
}

// 2 or 4 ranks with equal samples: their mean gradient equals the gradient of one rank, to the last bit.
TEST(Muon, WorldSizesKeepBits) {
  const auto alike = [] {
    tests::Subject subject = tests::tied_net();
    return tests::Subject{subject.module,
                          [loss = subject.loss](int step, int micro, int) { return loss(step, micro, 0); }};
  };
  const RunResult alone = tests::train(1, 4, {.stage = 3, .optimizer = kMuon, .clip = 0.5}, alike, kLr);
  for (const int world : {2, 4}) {
    for (const int stage : {0, 2, 3}) {
      const RunResult seen = tests::train(world, 4, {.stage = stage, .optimizer = kMuon, .clip = 0.5}, alike, kLr);
      EXPECT_TRUE(same_bits(seen.parameters, alone.parameters)) << world << " ranks, stage " << stage;
    }
  }
}

// The step of torch.optim.Muon, with the iterations in double.
torch::Tensor orthogonal(const torch::Tensor& direction) {
  torch::Tensor x = direction.size(0) > direction.size(1) ? direction.t() : direction;
  x = x / x.norm().clamp_min(1e-7);
  for (int step = 0; step < 5; ++step) {
    const torch::Tensor a = torch::matmul(x, x.t());
    x = 3.4445 * x + torch::matmul(-4.7750 * a + 2.0315 * torch::matmul(a, a), x);
  }
  return direction.size(0) > direction.size(1) ? x.t() : x;
}

// Muon and AdamW on plain tensors, in double.
class ByHand {
 public:
  ByHand(const torch::nn::Module& module, const Muon& options) : options_(options) {
    for (const auto& item : module.named_parameters()) {
      const torch::Tensor value = item.value().detach().to(torch::kFloat64).clone();
      states_[item.key()] = {value, torch::zeros_like(value), torch::zeros_like(value)};
    }
  }
  void step(const std::string& name, const torch::Tensor& gradient, int step, double lr) {
    auto& [p, m, v] = states_[name];
    const torch::Tensor g = gradient.to_dense().to(torch::kFloat64);
    const double decay = p.dim() >= 2 ? options_.weight_decay : 0;
    if (p.dim() >= 2 && name != "table.weight") {
      m = options_.momentum * m + (1 - options_.momentum) * g;
      const torch::Tensor u = options_.nesterov ? (1 - options_.momentum) * g + options_.momentum * m : m;
      const auto rows = static_cast<double>(p.size(0)), columns = static_cast<double>(p.size(1));
      const double scale = options_.scale == MuonScale::kOriginal ? std::sqrt(std::max(1.0, rows / columns))
                                                                  : 0.2 * std::sqrt(std::max(rows, columns));
      p = p * (1 - lr * decay) - lr * scale * orthogonal(u);
      return;
    }
    lr *= options_.adamw.lr / options_.lr;
    m = options_.adamw.beta1 * m + (1 - options_.adamw.beta1) * g;
    v = options_.adamw.beta2 * v + (1 - options_.adamw.beta2) * g * g;
    p = p * (1 - lr * decay) - lr * (m / (1 - std::pow(options_.adamw.beta1, step))) /
                                   ((v / (1 - std::pow(options_.adamw.beta2, step))).sqrt() + options_.adamw.eps);
  }
  const torch::Tensor& parameter(const std::string& name) { return states_.at(name)[0]; }
  double apart(const std::vector<torch::Tensor>& in_name_order) const {
    double worst = 0;
    std::size_t at = 0;
    for (const auto& [name, state] : states_) {
      const torch::Tensor ours = in_name_order.at(at++).to(torch::kFloat64).reshape({-1});
      worst = std::max(worst, (ours - state[0].reshape({-1})).norm().item<double>() / state[0].norm().item<double>());
    }
    return worst;
  }

 private:
  Muon options_;
  std::map<std::string, std::array<torch::Tensor, 3>> states_;  // by name: parameter, moments
};

// The hand-written rule computes in double.
TEST(Muon, AgreesWithHandWrittenRule) {
  for (const auto& options : {kMuon, Muon{.lr = kLr,
                                     .nesterov = false,
                                     .scale = MuonScale::kMatchRmsAdamW,
                                     .weight_decay = 0.1,
                                     .adamw = {.lr = 1e-3}}}) {
    for (const int num_steps : {1, 10}) {
      const RunResult ours = tests::train(2, num_steps, {.stage = 3, .optimizer = options}, tests::tied_net, kLr);
      torch::manual_seed(7);
      tests::Subject subject = tests::tied_net();
      ByHand by_hand(*subject.module, options);
      for (int step = 1; step <= num_steps; ++step) {
        const torch::Tensor loss = (subject.loss(step - 1, 0, 0) + subject.loss(step - 1, 0, 1)) / 2;
        loss.backward();
        for (const auto& item : subject.module->named_parameters()) {
          torch::Tensor tensor = item.value();
          by_hand.step(item.key(), tensor.grad(), step, kLr);
          tensor.mutable_grad().reset();
          const torch::NoGradGuard no_grad;
          tensor.copy_(by_hand.parameter(item.key()));
        }
      }
      EXPECT_LE(by_hand.apart(ours.parameters), 1e-5) << num_steps << " steps";
    }
  }
}

// Other parameters take eight bytes.
TEST(Muon, MatricesTakeFourBytesPerElement) {
  constexpr double kMatrices = 3 * 2 * 72, kOthers = 66 + 3 * (12 + 12 + 6) + 1;
  for (const int world : {1, 2}) {
    for (const int stage : {0, 3}) {
      const RunResult run = tests::train(world, 2, {.stage = stage, .optimizer = kMuon}, tests::tied_net, kLr);
      const int shards = stage == 0 ? 1 : world;
      for (const EngineReport& report : run.reports) {
        const double formula = (4 * kMatrices + 8 * kOthers) / shards;
        EXPECT_GE(static_cast<double>(report.memory.device[MemoryTag::kMoment]), formula);
        EXPECT_LE(static_cast<double>(report.memory.device[MemoryTag::kMoment]),
                  formula + 8 * static_cast<double>(report.padding_bytes) / 4);
        EXPECT_DOUBLE_EQ(report.state_formula_bytes,
                         stage == 0 ? (12 * kMatrices + 16 * kOthers) : (12 * kMatrices + 16 * kOthers) / world);
      }
    }
  }
}

TEST(Muon, TakesWhatGroupsSay) {
  const auto named = [](const std::string& part) {
    return [part](const ParamSpec& spec) { return spec.name.find(part) != std::string::npos; };
  };
  std::vector<ParameterGroup> groups{{.matches = named("up.weight"), .muon = false},
                                     {.matches = named("table"), .muon = true},
                                     {.matches = [](const ParamSpec&) { return true; }}};
  tests::on_every_rank(1, [&](World& ranks) {
    tests::TiedNet net;
    Engine engine = attach(net, ranks, {.stage = 3, .optimizer = kMuon, .groups = groups});
    const std::vector<std::string> of_muon{"parameter", "momentum_buffer"},
        of_adamw{"parameter", "exp_avg", "exp_avg_sq"};
    EXPECT_EQ(engine.state_names("blocks.0.up.weight"), of_adamw);
    EXPECT_EQ(engine.state_names("blocks.0.down.weight"), of_muon);
    EXPECT_EQ(engine.state_names("table.weight"), of_muon);
    EXPECT_EQ(engine.state_names("blocks.0.norm.weight"), of_adamw) << "one dimension";
    const std::string message = message_of<ConfigError>([&] { engine.full_state("table.weight", "exp_avg"); });
    EXPECT_TRUE(says(message, "use one of parameter, momentum_buffer")) << message;
  });
}

// Two steps at stage 3 and a checkpoint, which another stage loads for the third step. The result equals three steps at
// stage 3.
TEST(Muon, ContinuesAtAnotherStage) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "saved").string();
  const RunResult whole = tests::train(2, 3, {.stage = 3, .optimizer = kMuon}, tests::tied_net, kLr);
  std::vector<std::shared_ptr<tests::TiedNet>> nets = tests::tied_nets(2);
  std::vector<torch::Tensor> seen;
  tests::on_every_rank(2, [&](World& ranks) {
    tests::TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    const auto take = [&](Engine& engine, int step) {
      loss_of(net, step, 0, ranks.rank()).backward();
      engine.step(kLr);
    };
    {
      Engine first = attach(net, ranks, {.stage = 3, .optimizer = kMuon});
      for (const int step : {0, 1}) take(first, step);
      first.save(path);
      take(first, 7);  // not in the checkpoint, so without effect
    }
    Engine second = attach(net, ranks, {.stage = 1, .optimizer = kMuon});
    second.load(path);
    take(second, 2);
    second.for_each_parameter([&](const std::string&, const torch::Tensor& value) {
      if (ranks.rank() == 0) seen.push_back(value.clone());
    });
  });
  EXPECT_TRUE(same_bits(seen, whole.parameters));
}

TEST(Muon, RefusesCheckpointOfOtherMatrices) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "saved").string();
  tests::on_every_rank(1, [&](World& ranks) {
    tests::TiedNet net;
    {
      Engine engine = attach(net, ranks, {.stage = 3, .optimizer = kMuon});
      tests::loss_of(net, 0, 0, 0).backward();
      engine.step(kLr);
      engine.save(path);
    }
    const auto is_down = [](const ParamSpec& spec) { return spec.name.ends_with("down.weight"); };
    const auto is_any = [](const ParamSpec&) { return true; };
    Engine other =
        attach(net, ranks,
               {.stage = 3, .optimizer = kMuon, .groups = {{.matches = is_down, .muon = false}, {.matches = is_any}}});
    const std::string message = message_of<ConfigError>([&] { other.load(path); });
    EXPECT_TRUE(says(message, "has another update rule in the checkpoint")) << message;
  });
}

TEST(Muon, RefusesDelayedUpdates) {
  tests::on_every_rank(1, [](World& ranks) {
    tests::TiedNet net;
    const std::string message =
        message_of<ConfigError>([&] { attach(net, ranks, {.stage = 2, .optimizer = kMuon, .delayed_update = true}); });
    EXPECT_TRUE(says(message, "zero.delayed_update")) << message;
    EXPECT_TRUE(says(message, "muon needs the direction of a whole matrix")) << message;
  });
}

}  // namespace
}  // namespace zero
