// ModelTensors: the parameters and buffers of a model, by name. attach() needs no more of a model.
//
//   ModelTensors tensors = tensors_of(*model);                     // of a torch::nn::Module
//   ModelTensors own{.parameters = {{"w", w}, {"b", b}}, .buffers = {{"mean", mean}}};   // of anything else
//
// A parameter is a dense leaf, fp32, bf16 or fp16, or made by deferred(); all lie on the CPU, or all on one GPU.
// requires_grad says whether it is trained. The same tensor under a second name is tied, and counts once. Order is that of registration: parameters of
// one unit that are used together stand together. Handles of the model's own tensors, no copies. Local.
#pragma once

#include <string>
#include <vector>

#include <torch/nn/module.h>

namespace zero {

struct ModelTensors {
  struct Parameter {
    std::string name;
    torch::Tensor tensor;
    bool own_unit = false;    // a unit of its own, as large embedding tables are
    bool stays_fp32 = false;  // whatever AttachOptions::dtype says: it is used beside running statistics
  };
  struct Buffer {
    std::string name;
    torch::Tensor tensor;
    bool becomes_fp32 = false;  // a running statistic: fp32 whatever AttachOptions::dtype says
  };
  std::vector<Parameter> parameters;
  std::vector<Buffer> buffers;
};

// Embedding tables get a unit of their own. Parameters of a module with running statistics (BatchNorm, InstanceNorm: a
// buffer "running_mean" that is defined) stay fp32, and so do its statistics: libtorch takes bf16 and fp16 activations
// with such a module, and statistics of 16 bits would stand still.
ModelTensors tensors_of(const torch::nn::Module& module);

}  // namespace zero
