// GradientNoise: Gaussian noise on the gradient of each step, of variance eta / (1 + t)^0.55 after t steps (Neelakantan et al.
// 2015, arXiv 1511.06807).
//
//   GradientNoise noise(module, 0.01, seed);
//   noise.next(step, num_ranks * loss_scale);     // before the backward pass that gets noise
//   loss.backward();
//   noise.none();
//
// One rank adds it for all, to its own gradient, in the last micro-batch of a step: the mean over ranks divides it again, by
// `divided`. It is a function of seed, step and parameter, so that stages, tiers and a resumed run have the same bits. It is
// part of the gradient that is clipped. Local.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

namespace zero {

// Of each element, of the step after `step` steps.
double gradient_noise_deviation(double eta, std::int64_t step);

class GradientNoise {
 public:
  // Of the parameters of the module that are trained.
  GradientNoise(torch::nn::Module& module, double eta, std::uint64_t seed);
  ~GradientNoise();
  GradientNoise(const GradientNoise&) = delete;
  GradientNoise& operator=(const GradientNoise&) = delete;

  // The next backward pass adds the noise of the step after `step` steps, `divided` times as large.
  void next(std::int64_t step, double divided);
  // No backward pass does, until next().
  void none();

 private:
  struct Draw {
    std::uint64_t seed = 0;
    std::int64_t step = 0;
    double deviation = 0;  // 0: none
  };

  double eta_;
  std::shared_ptr<Draw> draw_;
  std::vector<std::pair<torch::Tensor, unsigned>> hooked_;
};

}  // namespace zero
