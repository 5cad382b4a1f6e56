#include "app/train/watch/gradient_noise.h"

#include <cmath>

#include <gtest/gtest.h>

#include <torch/nn/modules/linear.h>

#include "tests/train/small_run.h"

namespace zero {
namespace {

class Noise : public testing::Test {
 protected:
  // The gradient of the weights when the loss's own gradient is zero.
  torch::Tensor gradient() {
    model_->zero_grad();
    (model_->forward(torch::ones({1, 300})).sum() * 0).backward();
    return model_->weight.grad().clone();
  }
  torch::Tensor gradient(GradientNoise& noise, std::int64_t step, double divided = 1) {
    noise.next(step, divided);
    return gradient();
  }

  torch::nn::Linear model_{300, 200};
};

TEST_F(Noise, HasTheDeviationOfTheFormula) {
  GradientNoise noise(*model_, 0.09, 7);
  for (const std::int64_t step : {0, 1, 1000}) {
    const torch::Tensor drawn = gradient(noise, step);
    const double deviation = std::sqrt(0.09 / std::pow(1.0 + static_cast<double>(step), 0.55));
    EXPECT_NEAR(drawn.std().item<double>(), deviation, 0.02 * deviation);
    EXPECT_NEAR(drawn.mean().item<double>(), 0, 4 * deviation / std::sqrt(60000.0));
  }
}

TEST_F(Noise, DependsOnSeedStepAndParameter) {
  GradientNoise noise(*model_, 0.01, 7);
  const torch::Tensor first = gradient(noise, 5);
  EXPECT_TRUE(torch::equal(gradient(noise, 5), first));
  EXPECT_TRUE(torch::allclose(gradient(noise, 5, 8), 8 * first)) << "the mean divides by this factor";
  EXPECT_FALSE(torch::equal(gradient(noise, 6), first));
  EXPECT_FALSE(torch::equal(model_->weight.grad().flatten().slice(0, 0, 200), model_->bias.grad()));
}

// Frozen parameters also get no noise.
TEST_F(Noise, IsAbsentUnlessRequested) {
  model_->bias.set_requires_grad(false);
  {
    GradientNoise noise(*model_, 0.01, 7);
    EXPECT_EQ(gradient(noise, 0).count_nonzero().item<std::int64_t>(), 60000);
    EXPECT_FALSE(model_->bias.grad().defined());
    noise.none();
    EXPECT_EQ(gradient().count_nonzero().item<std::int64_t>(), 0);
    noise.next(0, 1);
  }
  EXPECT_EQ(gradient().count_nonzero().item<std::int64_t>(), 0) << "the noise is gone";
}

class NoisyRun : public SmallRunTest {
 protected:
  std::string weights(int stage, double noise) {
    TrainJob job = text_job(6);
    job.overwrite = true;
    job.train.accumulate = 2;
    job.train.gradient_noise = noise;
    job.attach.accumulate = 2;
    job.attach.stage = stage;
    return run(job, 2).report.parameters_sha256;
  }
};

TEST_F(NoisyRun, StagesKeepBits) {
  const std::string noisy = weights(0, 0.5);
  EXPECT_EQ(weights(3, 0.5), noisy);
  EXPECT_NE(weights(3, 0), noisy);
}

}  // namespace
}  // namespace zero
