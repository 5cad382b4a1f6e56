// fp16 training of a module equals a plain libtorch loop with a hand-written GradScaler, and agrees with
// torch.amp.GradScaler in Python.
#include <cmath>
#include <optional>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/grad_scaler_numbers.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

constexpr int kSteps = 200;
constexpr int kInterval = 12;  // short, so the scale repeatedly grows into overflows

torch::nn::Sequential small_net() {
  torch::manual_seed(5);
  return torch::nn::Sequential(torch::nn::Linear(8, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
}

// The net of grad_scaler_numbers.py, with the same first weights.
torch::nn::Sequential net_of_the_script() {
  torch::nn::Sequential net = small_net();
  const torch::NoGradGuard no_gradients;
  for (torch::Tensor& parameter : net->parameters()) {
    const torch::Tensor values = (torch::arange(parameter.numel(), torch::kFloat) * 37 + 11).remainder(64) - 32;
    parameter.copy_((values / 128).reshape(parameter.sizes()));
  }
  return net;
}

torch::Tensor loss_of(torch::nn::Sequential& net, int step) {
  const torch::Tensor x = torch::sin(torch::arange(16 * 8, torch::kFloat) * (0.7 + 0.01 * (step % 9))).reshape({16, 8});
  const torch::Tensor y = net->forward(x.to(net->parameters()[0].scalar_type())).to(torch::kFloat);
  return torch::mse_loss(y, x.sum(1, /*keepdim=*/true));
}

struct Curve {
  std::vector<double> losses, scales, norms;
  std::vector<bool> skipped;
};

// The algorithm of torch.amp.GradScaler over fp32 masters of an fp16 module.
Curve train_by_hand() {
  torch::nn::Sequential net = small_net();
  std::vector<torch::Tensor> masters;
  for (const torch::Tensor& parameter : net->parameters())
    masters.push_back(parameter.detach().clone().requires_grad_());
  net->to(torch::kHalf);
  torch::optim::SGD optimizer(masters, torch::optim::SGDOptions(2e-2).momentum(0.9));
  Curve curve;
  double scale = 65536;
  int good_steps = 0;
  for (int step = 0; step < kSteps; ++step) {
    const torch::Tensor loss = loss_of(net, step);
    (loss * scale).backward();
    curve.losses.push_back(loss.item<double>());
    curve.scales.push_back(scale);
    const torch::NoGradGuard no_gradients;
    bool finite = true;
    double squares = 0;
    for (std::size_t i = 0; i < masters.size(); ++i) {
      torch::Tensor half = net->parameters()[i];
      finite = finite && torch::isfinite(half.grad()).all().item<bool>();
      masters[i].mutable_grad() = half.grad().to(torch::kFloat) * (1 / scale);
      squares += masters[i].grad().to(torch::kDouble).square().sum().item<double>();
      half.mutable_grad().reset();
    }
    curve.norms.push_back(std::sqrt(squares));
    curve.skipped.push_back(!finite);
    if (!finite) {
      scale /= 2;
      good_steps = 0;
      continue;
    }
    optimizer.step();
    for (std::size_t i = 0; i < masters.size(); ++i) net->parameters()[i].copy_(masters[i]);
    if (++good_steps == kInterval) {
      scale *= 2;
      good_steps = 0;
    }
  }
  return curve;
}

Curve train_attached(AttachOptions options, torch::nn::Sequential net) {
  options.optimizer = Sgd{.lr = 2e-2, .momentum = 0.9};
  options.dtype = DType::kFloat16;
  options.loss_scale = LossScaleOptions{.growth_interval = kInterval};
  Curve curve;
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(*net, ranks, options);
    for (int step = 0; step < kSteps; ++step) {
      const torch::Tensor loss = loss_of(net, step);
      engine.scaled(loss).backward();
      const StepReport report = engine.step();
      curve.losses.push_back(loss.item<double>());
      curve.scales.push_back(report.loss_scale.value());
      curve.norms.push_back(report.grad_norm);
      curve.skipped.push_back(report.skipped);
    }
  });
  return curve;
}

TEST(ScaledLoss, TrainsAsAGradScalerDoes) {
  const Curve expected = train_by_hand();
  const auto num_skipped = std::count(expected.skipped.begin(), expected.skipped.end(), true);
  ASSERT_GT(num_skipped, 3) << "the scale grows into overflows";
  ASSERT_LT(expected.losses.back(), 0.05 * expected.losses.front());
  for (const AttachOptions& options : tests::all_stages({})) {
    const Curve seen = train_attached(options, small_net());
    EXPECT_EQ(seen.scales, expected.scales) << tests::placement_of(options);
    EXPECT_EQ(seen.skipped, expected.skipped);
    for (std::size_t step = 0; step < seen.losses.size(); ++step) {
      ASSERT_NEAR(seen.losses[step], expected.losses[step], 1e-3 * expected.losses.front()) << step;
      if (!expected.skipped[step]) {
        ASSERT_NEAR(seen.norms[step], expected.norms[step], 0.05 * expected.norms[step] + 1e-3);
      }
    }
  }
}

// An fp16 number has 11 bits. Operators of another build or processor may add in another order. They then round outputs
// up to 3 to a neighbour, 2^-10 away. A loss of squares changes by some thousandths, or by 1e-4 if it is small. Scales
// and skipped steps are equal, because the script keeps scaled gradients 3 % away from the largest fp16 number.
TEST(ScaledLoss, MatchesTorchsGradScaler) {
  using namespace grad_scaler_numbers;
  ASSERT_EQ(kLosses.size(), std::size_t{kSteps});
  for (const AttachOptions& options : tests::all_stages({})) {
    const Curve seen = train_attached(options, net_of_the_script());
    std::vector<std::size_t> skipped;
    for (std::size_t step = 0; step < kLosses.size(); ++step) {
      ASSERT_NEAR(seen.losses[step], kLosses[step], 2e-3 * kLosses[step] + 1e-4) << step;
      ASSERT_EQ(seen.scales[step], std::exp2(kScaleExponents[step])) << step;
      if (seen.skipped[step]) skipped.push_back(step);
    }
    EXPECT_EQ(skipped, kSkipped) << tests::placement_of(options);
  }
}

// The error names the forgotten call.
TEST(ScaledLoss, RefusesForgottenScale) {
  torch::nn::Sequential net = small_net();
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(*net, ranks, {.dtype = DType::kFloat16});
    loss_of(net, 0).backward();
    EXPECT_TRUE(says(message_of<ConfigError>([&] { engine.step(); }), "engine.scaled(loss)"));
  });
}

TEST(ScaledLoss, NoScaleReturnsLossUnchanged) {
  torch::nn::Sequential net = small_net();
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(*net, ranks, {.dtype = DType::kBFloat16});
    const torch::Tensor loss = loss_of(net, 0);
    EXPECT_TRUE(engine.scaled(loss).is_same(loss));
    loss.backward();
    EXPECT_EQ(engine.step().loss_scale, std::nullopt);
  });
}

TEST(ScaledLoss, Fp16ModuleHasDynamicScale) {
  torch::nn::Sequential net = small_net();
  net->to(torch::kHalf);
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(*net, ranks, {});
    EXPECT_EQ(engine.parameters()[0].dtype, DType::kFloat16);
    EXPECT_EQ(engine.report().loss_scale, 65536);
  });
  EXPECT_EQ(net->parameters()[0].scalar_type(), torch::kHalf) << "the parameters have their own type again";
}

// Three ranks with two micro-batches. A run that is saved and loaded in the middle has the bits of an uninterrupted
// run.
TEST(ScaledLoss, ACheckpointCarriesTheScale) {
  const TemporaryFolder folder;
  const auto run = [&](bool interrupted) {
    std::vector<double> seen;
    std::vector<torch::Tensor> weights;
    std::vector<torch::nn::Sequential> nets;
    for (int rank = 0; rank < 3; ++rank) nets.push_back(small_net());
    tests::on_every_rank(3, [&](World& ranks) {
      torch::nn::Sequential& net = nets[static_cast<std::size_t>(ranks.rank())];
      const AttachOptions options{.stage = 3,
                                  .accumulate = 2,
                                  .average_micro_batches = true,
                                  .dtype = DType::kFloat16,
                                  .loss_scale = LossScaleOptions{.value = 0x1p20, .growth_interval = 4}};
      std::optional<Engine> engine(attach(*net, ranks, options));
      for (int step = 0; step < 16; ++step) {
        if (interrupted && step == 9) {
          engine->save(folder / "checkpoint");
          engine.reset();
          engine.emplace(attach(*net, ranks, options));
          engine->load(folder / "checkpoint");
        }
        for (int micro = 0; micro < 2; ++micro)
          engine->scaled(loss_of(net, 3 * step + ranks.rank() + micro)).backward();
        const StepReport report = engine->step();
        if (ranks.rank() == 0)
          seen.insert(seen.end(), {*report.loss_scale, report.grad_norm, report.skipped ? 1.0 : 0.0});
      }
      engine->for_each_parameter(
          [&](const std::string&, const torch::Tensor& value) {
            if (ranks.rank() == 0) weights.push_back(value.clone());
          },
          /*full_precision=*/true);
    });
    return std::pair(seen, weights);
  };
  const auto [expected, weights] = run(false);
  const auto [seen, same_weights] = run(true);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(seen.back()), std::bit_cast<std::uint64_t>(expected.back()));
  ASSERT_EQ(seen.size(), expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i)
    EXPECT_TRUE(seen[i] == expected[i] || (std::isnan(seen[i]) && std::isnan(expected[i]))) << i;
  EXPECT_TRUE(tests::same_bits(weights, same_weights));
}

}  // namespace
}  // namespace zero
