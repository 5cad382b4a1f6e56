// together(): runs a part of a forward pass that reads values of tensors in one section of a pipeline.
//
//   y = zero::together([](const auto& in) { return in[0].index({in[0] > 0}).mean(); }, {x},
//                      torch::empty({}).requires_grad_());
//
// In a pipeline a forward pass may not read values of a tensor (item(), nonzero(), a boolean mask), because only one
// section has them. `fn` may read them: it runs as one operator, on a rank that has its inputs. The other ranks only
// use the layout of `like` for the result. Without a pipeline, together() only calls fn.
//
// Rules for fn:
//   - It uses tensors only from `inputs`; parameters are inputs too.
//   - Its results have the sizes and types of `like`, and need a gradient exactly if `like` does. Otherwise together()
//     throws ConfigError under "together". Values of `like` are not read.
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
