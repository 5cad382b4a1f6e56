// Training with moments in 8 bits. No rank, tier, tile or thread cuts their blocks of 256 elements.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "zero/optim/rule/eight_bit_code.h"
#include "zero/plan/units/estimate.h"

#include "tests/support/temporary_folder.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

using tests::RunResult;
using tests::Subject;

// Some parameters have many blocks, some a partly filled block, and some less than a shard.
struct LayersNet : torch::nn::Module {
  LayersNet() : layers(register_module("layers", torch::nn::ModuleList())) {
    for (int i = 0; i < 3; ++i) layers->push_back(torch::nn::Linear(95, 95));
  }
  torch::Tensor loss(int step, int micro, int rank) {
    torch::Tensor x = (torch::arange(190) * 0.1 + step + micro + rank).sin().to(parameters()[0].scalar_type());
    x = x.reshape({2, 95});
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::LinearImpl>()->forward(x));
    return (x - 0.5).square().sum();
  }
  torch::nn::ModuleList layers;
};
constexpr std::int64_t kNumel = 3 * (95 * 95 + 95);
constexpr AdamW8bit kRule{.weight_decay = 0.1};

Subject layers_net() {
  auto net = std::make_shared<LayersNet>();
  return {net, [net](int step, int micro, int rank) { return net->loss(step, micro, rank); }};
}

// Every stage, and stages with states on host and disk, also over a simulated link.
std::vector<AttachOptions> placements(AttachOptions options, const TemporaryFolder& disk) {
  std::vector<AttachOptions> all = tests::all_stages(options);
  options.threads = 3;
  options.offload.disk = {disk.path().string()};
  options.stage = 1;
  options.offload.fractions = {.optimizer = {.host = 0.3, .disk = 0.7}};
  all.push_back(options);
  options.stage = 3;
  options.offload.fractions = {
      .parameter = {.disk = 0.5}, .gradient = {.host = 1}, .optimizer = {.host = 0.3, .disk = 0.3}};
  all.push_back(options);
  options.offload.link_bytes_per_second = 4e9;
  all.push_back(options);
  return all;
}

TEST(AdamW8bit, StagesAndTiersKeepBits) {
  const TemporaryFolder disk;
  for (const int world : {1, 2, 3}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const AttachOptions options{.optimizer = kRule, .clip = 0.5, .dtype = dtype};
      const RunResult resident = tests::train(world, 4, options, layers_net);
      for (const AttachOptions& placed : placements(options, disk)) {
        const RunResult seen = tests::train(world, 4, placed, layers_net);
        EXPECT_TRUE(tests::same_bits(seen.parameters, resident.parameters))
            << world << " ranks, " << name_of(dtype) << ", " << tests::placement_of(placed);
      }
    }
  }
}

// Blocks belong to parameters, so the choice of units changes no block.
TEST(AdamW8bit, UnitsChangeNoBlockBits) {
  AttachOptions options{.stage = 3, .optimizer = kRule};
  const RunResult by_layer = tests::train(2, 4, options, layers_net);
  options.units = {"layers"};
  EXPECT_TRUE(tests::same_bits(tests::train(2, 4, options, layers_net).parameters, by_layer.parameters));
}

TEST(AdamW8bit, HoldsWhatTheDeclarationSays) {
  for (const int world : {1, 2, 4}) {
    for (const AttachOptions& options : tests::all_stages({.optimizer = kRule})) {
      const RunResult run = tests::train(world, 2, options, layers_net);
      for (const EngineReport& report : run.reports) {
        const double share = options.stage >= 1 ? 1.0 / world : 1.0;
        const auto padding = static_cast<double>(report.padding_bytes) / 4;
        const double bytes = 2 + 8 / 256.0;
        EXPECT_NEAR(static_cast<double>(report.memory.device[MemoryTag::kMoment]), bytes * share * kNumel,
                    0.01 * bytes * share * kNumel + bytes * padding)
            << world << " ranks, " << tests::placement_of(options);
        EXPECT_LE(padding, kNumel / 8);
      }
    }
  }
}

// The rule by hand, in double. Its moments are encoded by the code that eight_bit_code_test.cpp tests.
TEST(AdamW8bit, AgreesWithHandWrittenRule) {
  constexpr double kLr = 1e-2;
  constexpr int kSteps = 30;
  const RunResult ours = tests::train(2, kSteps, {.stage = 3, .optimizer = kRule}, layers_net, kLr);
  torch::manual_seed(7);
  LayersNet net;
  struct State {
    torch::Tensor parameter, start;
    std::vector<float> first, second;
  };
  std::map<std::string, State> states;
  for (const auto& item : net.named_parameters()) {
    const auto numel = static_cast<std::size_t>(item.value().numel());
    const torch::Tensor value = item.value().detach().to(torch::kFloat64).reshape({-1});
    states[item.key()] = {value.clone(), value.clone(), std::vector<float>(numel), std::vector<float>(numel)};
  }
  const auto through_codes = [](StateCode code, std::vector<float>& values) {
    std::vector<std::uint8_t> codes(values.size());
    std::vector<float> scales(values.size() / 256 + 1);
    encode_blocks(code, values, {codes.data(), scales.data()});
    decode_blocks(code, {codes.data(), scales.data()}, values);
  };
  for (int step = 1; step <= kSteps; ++step) {
    ((net.loss(step - 1, 0, 0) + net.loss(step - 1, 0, 1)) / 2).backward();
    const torch::NoGradGuard no_grad;
    for (const auto& item : net.named_parameters()) {
      torch::Tensor tensor = item.value();
      auto& [p, start, first, second] = states[item.key()];
      const torch::Tensor g = tensor.grad().to(torch::kFloat64).reshape({-1});
      const double decay = tensor.dim() >= 2 ? 0.1 : 0;
      for (std::size_t i = 0; i < first.size(); ++i) {
        const double gradient = g.data_ptr<double>()[i];
        const double m = 0.9 * first[i] + 0.1 * gradient, v = 0.999 * second[i] + 0.001 * gradient * gradient;
        double& value = p.data_ptr<double>()[i];
        value *= 1 - kLr * decay;
        value -= kLr * m / (1 - std::pow(0.9, step)) / (std::sqrt(v / (1 - std::pow(0.999, step))) + 1e-8);
        first[i] = static_cast<float>(m);
        second[i] = static_cast<float>(v);
      }
      through_codes(StateCode::kSigned8, first);
      through_codes(StateCode::kUnsigned8, second);
      tensor.copy_(p.reshape(tensor.sizes()));
      tensor.mutable_grad().reset();
    }
  }
  std::size_t at = 0;
  for (const auto& [name, state] : states) {
    const torch::Tensor value = ours.parameters.at(at++).to(torch::kFloat64).reshape({-1});
    const double apart = (value - state.parameter).norm().item<double>();
    const double moved = (state.parameter - state.start).norm().item<double>();
    EXPECT_GT(moved, 10 * kLr) << name;
    EXPECT_LE(apart, 3e-2 * moved) << name << ": if rounding gives a moment the next code, the two differ a little";
  }
}

// Each rule continues with the moments of the other.
TEST(AdamW8bit, ExchangesMomentsWithAdamW) {
  const TemporaryFolder folder;
  const auto path = [&folder](const std::string& name) { return (folder.path() / name).string(); };
  tests::on_every_rank(1, [&](World& ranks) {
    torch::manual_seed(3);
    LayersNet net;
    auto precise = std::make_unique<Engine>(attach(net, ranks, {.optimizer = AdamW{}}));
    for (int step = 0; step < 3; ++step) {
      net.loss(step, 0, 0).backward();
      precise->step(1e-2);
    }
    const torch::Tensor moment = precise->full_state("layers.0.weight", "exp_avg");
    precise->save(path("precise"));
    precise.reset();
    auto coded = std::make_unique<Engine>(attach(net, ranks, {.optimizer = kRule}));
    coded->load(path("precise"));
    const torch::Tensor kept = coded->full_state("layers.0.weight", "exp_avg");
    EXPECT_FALSE(torch::equal(kept, moment));
    EXPECT_LT((kept - moment).norm().item<double>(), 0.03 * moment.norm().item<double>());
    coded->save(path("coded"));
    coded.reset();
    precise = std::make_unique<Engine>(attach(net, ranks, {.optimizer = AdamW{}}));
    precise->load(path("coded"));
    EXPECT_TRUE(torch::equal(precise->full_state("layers.0.weight", "exp_avg"), kept));
  });
}

TEST(AdamW8bit, AnOverflowLeavesItsCodesAlone) {
  tests::on_every_rank(1, [&](World& ranks) {
    torch::manual_seed(3);
    LayersNet net;
    Engine engine =
        attach(net, ranks, {.optimizer = kRule, .dtype = DType::kFloat16, .loss_scale = LossScaleOptions{.value = 16}});
    const auto moments = [&] {
      return torch::cat({engine.full_state("layers.0.weight", "exp_avg").reshape({-1}),
                         engine.full_state("layers.0.weight", "exp_avg_sq").reshape({-1})});
    };
    for (int step = 0; step < 2; ++step) {
      engine.scaled(net.loss(step, 0, 0)).backward();
      engine.step(1e-2);
    }
    const torch::Tensor before = moments();
    EXPECT_GT(before.abs().sum().item<double>(), 0);
    (engine.scaled(net.loss(2, 0, 0)) * std::numeric_limits<float>::infinity()).backward();
    engine.step(1e-2);
    EXPECT_TRUE(torch::equal(moments(), before));
  });
}

}  // namespace
}  // namespace zero
