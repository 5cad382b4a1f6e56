#include "zero/torch/module/model_tensors.h"

#include <string_view>
#include <unordered_set>
#include <vector>

#include <torch/nn/modules/embedding.h>

namespace zero {
namespace {

using TensorSet = std::unordered_set<const at::TensorImpl*>;

TensorSet embedding_weights(const torch::nn::Module& module) {
  TensorSet weights;
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (const auto* table = child->as<torch::nn::EmbeddingImpl>()) weights.insert(table->weight.unsafeGetTensorImpl());
    if (const auto* bag = child->as<torch::nn::EmbeddingBagImpl>()) weights.insert(bag->weight.unsafeGetTensorImpl());
  }
  return weights;
}

void add_beside_statistics(const torch::nn::Module& module, TensorSet& found) {
  const auto buffers = module.named_buffers(/*recurse=*/false);
  const torch::Tensor* mean = buffers.find("running_mean");
  if (mean == nullptr || !mean->defined()) return;
  for (const torch::Tensor& parameter : module.parameters(/*recurse=*/false))
    found.insert(parameter.unsafeGetTensorImpl());
}

// Returns the parameters of modules that have running statistics.
TensorSet beside_statistics(const torch::nn::Module& module) {
  TensorSet found;
  add_beside_statistics(module, found);
  for (const auto& child : module.modules(/*include_self=*/false)) add_beside_statistics(*child, found);
  return found;
}

bool is_running_statistic(std::string_view buffer) {
  const std::string_view own = buffer.substr(buffer.rfind('.') + 1);  // npos + 1 is 0
  return own == "running_mean" || own == "running_var";
}

}  // namespace

ModelTensors tensors_of(const torch::nn::Module& module) {
  ModelTensors found;
  const TensorSet embeddings = embedding_weights(module);
  const TensorSet in_fp32 = beside_statistics(module);
  for (const auto& item : module.named_parameters()) {
    const at::TensorImpl* tensor = item.value().unsafeGetTensorImpl();
    found.parameters.push_back({.name = item.key(),
                                .tensor = item.value(),
                                .own_unit = embeddings.contains(tensor),
                                .stays_fp32 = in_fp32.contains(tensor)});
  }
  for (const auto& item : module.named_buffers())
    found.buffers.push_back(
        {.name = item.key(), .tensor = item.value(), .becomes_fp32 = is_running_statistic(item.key())});
  return found;
}

bool counts_as_buffer(const torch::Tensor& parameter) {
  return parameter.defined() && !parameter.requires_grad() &&
         at::isIntegralType(parameter.scalar_type(), /*includeBool=*/true);
}

ModelTensors with_quantised_buffers(ModelTensors model) {
  for (const ModelTensors::Parameter& parameter : model.parameters)
    if (counts_as_buffer(parameter.tensor)) model.buffers.push_back({parameter.name, parameter.tensor});
  std::erase_if(model.parameters,
                [](const ModelTensors::Parameter& parameter) { return counts_as_buffer(parameter.tensor); });
  return model;
}

}  // namespace zero
