#include "app/train/watch/gradient_noise.h"

#include <cmath>
#include <optional>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/normal.h>

#include "app/train/tasks/micro_batch_seed.h"

namespace zero {
namespace {

constexpr double kDecay = 0.55;
constexpr int kNoRank = -1;  // gives seeds that no rank's dropout uses

}  // namespace

double gradient_noise_deviation(double eta, std::int64_t step) {
  return std::sqrt(eta / std::pow(1.0 + static_cast<double>(step), kDecay));
}

GradientNoise::GradientNoise(torch::nn::Module& module, double eta, std::uint64_t seed)
    : eta_(eta), draw_(std::make_shared<Draw>(Draw{.seed = seed})) {
  std::int64_t index = 0;
  for (torch::Tensor& parameter : module.parameters()) {
    const std::int64_t number = index++;
    if (!parameter.requires_grad()) continue;
    const auto add = [draw = draw_, number](const torch::Tensor& gradient) {
      if (draw->deviation == 0) return gradient;
      auto generator =
          at::make_generator<at::CPUGeneratorImpl>(micro_batch_seed(draw->seed, draw->step, number, kNoRank));
      const torch::Tensor noise = at::normal(0.0, draw->deviation, gradient.sizes(), std::move(generator), at::kFloat);
      return gradient + noise.to(gradient.options());
    };
    hooked_.emplace_back(parameter, parameter.register_hook(add));
  }
}

GradientNoise::~GradientNoise() {
  for (auto& [parameter, hook] : hooked_) parameter.remove_hook(hook);
}

void GradientNoise::next(std::int64_t step, double divided) {
  draw_->step = step;
  draw_->deviation = divided * gradient_noise_deviation(eta_, step);
}

void GradientNoise::none() {
  draw_->deviation = 0;
}

}  // namespace zero
