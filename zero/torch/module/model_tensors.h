// ModelTensors: the parameters and buffers of a model, by name. attach() needs nothing else of a model.
//
//   ModelTensors tensors = tensors_of(*model);                     // of a torch::nn::Module
//   ModelTensors own{.parameters = {{"w", w}, {"b", b}}, .buffers = {{"mean", mean}}};   // of any other model
//
// A parameter is a dense leaf in fp32, bf16 or fp16, or made by deferred(). A frozen parameter of whole numbers or
// booleans (quantised weights) counts as a buffer: each rank holds it whole. All parameters are on the CPU, or all on
// one GPU. requires_grad says whether it is trained. A second name of the same tensor is tied, and the tensor counts
// once. The order is that of registration: parameters of one unit that are used together are neighbours. The members
// are handles of the model's own tensors, not copies. Local.
#pragma once

#include <string>
#include <vector>

#include <torch/nn/module.h>

namespace zero {

struct ModelTensors {
  struct Parameter {
    std::string name;
    torch::Tensor tensor;
    bool own_unit = false;    // the parameter is a separate unit, as large embedding tables are
    bool stays_fp32 = false;  // also with another AttachOptions::dtype: it is used beside running statistics
  };
  struct Buffer {
    std::string name;
    torch::Tensor tensor;
    bool becomes_fp32 = false;  // a running statistic: fp32, also with another AttachOptions::dtype
    bool keeps_type = false;    // other buffers: their type, also with another AttachOptions::dtype
  };
  std::vector<Parameter> parameters;
  std::vector<Buffer> buffers;
};

// Returns the tensors of `module`. Each embedding table gets a separate unit. Parameters of a module with running
// statistics (BatchNorm, InstanceNorm: a defined buffer "running_mean") stay fp32, and so do these statistics. libtorch
// accepts bf16 and fp16 activations in such a module, and statistics in 16 bits would stop changing.
ModelTensors tensors_of(const torch::nn::Module& module);

// True for a frozen parameter of whole numbers or booleans.
bool counts_as_buffer(const torch::Tensor& parameter);
// Moves such parameters to the buffers.
ModelTensors with_quantised_buffers(ModelTensors model);

}  // namespace zero
