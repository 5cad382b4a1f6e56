// fill(module, 0.02, seed): gives a deferred module memory and random values, without an engine.
#pragma once

#include <cstdint>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include "zero/torch/deferred/tagged_tensor.h"

namespace zero {

inline void fill(torch::nn::Module& module, double deviation, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& tensor : module.parameters())
    replace_data(tensor, at::empty(tensor.sizes(), at::kFloat).normal_(0, deviation, generator));
}

}  // namespace zero
