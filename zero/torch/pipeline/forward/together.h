// together(): a part of a forward pass that reads values, and that one section of a pipeline computes.
//
//   y = zero::together([](const auto& in) { return in[0].index({in[0] > 0}).mean(); }, {x},
//                      torch::empty({}).requires_grad_());
//
// In a pipeline a forward pass may not read values of a tensor (item(), nonzero(), a boolean mask), because only one
// section has them. Inside `fn` it may: fn runs as one operator, on a rank that has its inputs. The other ranks know
// only that the result has the layout of `like`. Without a pipeline, fn is simply called.
//
// Rules for fn:
//   - It uses tensors only from `inputs`; parameters are inputs too.
//   - Its results have the sizes and types of `like`, and need a gradient if `like` does: ConfigError under "together".
//     Values of `like` are not read.
//   - It draws no random numbers, because the other ranks do not draw them. For the same reason it writes no buffer.
// Local if fn is Local.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace zero {

at::Tensor together(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& fn,
                    const std::vector<at::Tensor>& inputs, const at::Tensor& like);
// Takes a function with several results.
std::vector<at::Tensor> together(const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& fn,
                                 const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& like);

}  // namespace zero
