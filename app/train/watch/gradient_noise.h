// GradientNoise: Gaussian noise on the gradient of each step, of variance eta / (1 + t)^0.55 after t steps.
//
//   GradientNoise noise(module, 0.01, seed);
//   noise.next(step, num_ranks * loss_scale);     // before the backward pass that gets noise
//   loss.backward();
//   noise.none();
//
// The method is that of Neelakantan et al. 2015, arXiv 1511.06807. One rank adds the noise for all ranks, to its own
// gradient, in the last micro-batch of a step. It adds `divided` times the noise, because the mean over ranks and the
// loss scale divide it again. The noise is a function of seed, step and parameter, so stages, tiers and a resumed run
// have the same bits. It is part of the gradient that is clipped. Local.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

namespace zero {

// Returns the standard deviation of each element in the step after `step` steps.
double gradient_noise_deviation(double eta, std::int64_t step);

class GradientNoise {
 public:
  // Adds noise to the module's trained parameters.
  GradientNoise(torch::nn::Module& module, double eta, std::uint64_t seed);
  ~GradientNoise();
  GradientNoise(const GradientNoise&) = delete;
  GradientNoise& operator=(const GradientNoise&) = delete;

  // Makes the next backward pass add the noise of the step after `step` steps, times `divided`.
  void next(std::int64_t step, double divided);
  // Adds no noise until next() is called.
  void none();

 private:
  struct Draw {
    std::uint64_t seed = 0;
    std::int64_t step = 0;
    double deviation = 0;  // 0: no noise
  };

  double eta_;
  std::shared_ptr<Draw> draw_;
  std::vector<std::pair<torch::Tensor, unsigned>> hooked_;
};

}  // namespace zero
