#include "zero/torch/module_parameters.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include <torch/nn/modules/embedding.h>

#include "zero/base/error.h"
#include "zero/torch/deferred.h"
#include "zero/torch/dispatch_key.h"
#include "zero/torch/tensor_type.h"

namespace zero {
namespace {

std::unordered_set<const at::TensorImpl*> embedding_weights(const torch::nn::Module& module) {
  std::unordered_set<const at::TensorImpl*> weights;
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (const auto* table = child->as<torch::nn::EmbeddingImpl>()) weights.insert(table->weight.unsafeGetTensorImpl());
    if (const auto* bag = child->as<torch::nn::EmbeddingBagImpl>()) weights.insert(bag->weight.unsafeGetTensorImpl());
  }
  return weights;
}

void add_beside_statistics(const torch::nn::Module& module, std::unordered_set<const at::TensorImpl*>& found) {
  const auto buffers = module.named_buffers(/*recurse=*/false);
  const torch::Tensor* mean = buffers.find("running_mean");
  if (mean == nullptr || !mean->defined()) return;
  for (const torch::Tensor& parameter : module.parameters(/*recurse=*/false))
    found.insert(parameter.unsafeGetTensorImpl());
}

// Parameters of modules that keep running statistics.
std::unordered_set<const at::TensorImpl*> beside_statistics(const torch::nn::Module& module) {
  std::unordered_set<const at::TensorImpl*> found;
  add_beside_statistics(module, found);
  for (const auto& child : module.modules(/*include_self=*/false)) add_beside_statistics(*child, found);
  return found;
}

void check_supported(const std::string& name, const torch::Tensor& tensor) {
  if (tensor.key_set().has(kParameterKey)) {
    throw ConfigError("attach", name, "this parameter is attached already",
                      "destroy the first Attachment before making another");
  }
  if (!tensor.has_storage() || tensor.layout() != at::kStrided) {
    throw ConfigError("attach", name, "not a dense tensor", "zero.cpp shards dense parameters");
  }
  if (!tensor.is_cpu() && !tensor.is_meta()) {
    throw ConfigError("attach", name, fmt::format("it lies on {}", tensor.device().str()),
                      "this build trains on the CPU: move the module there first");
  }
  if (tensor.is_meta() && !is_deferred(tensor)) {
    throw ConfigError("attach", name, "it has no data and no recording",
                      "construct the module inside zero::deferred(), and do not convert it before attach()");
  }
  if (tensor.is_inference())
    throw ConfigError("attach", name, "it is an inference tensor", "construct the module outside InferenceMode");
}

// Two parameters in one allocation are fine (chunks); two that overlap would silently part.
void check_overlap(const ModuleParameters& found) {
  std::map<const void*, std::pair<const void*, std::size_t>> ranges;
  for (std::size_t i = 0; i < found.tensors.size(); ++i) {
    const torch::Tensor& tensor = found.tensors[i];
    if (tensor.is_meta() || tensor.numel() == 0) continue;
    const auto* begin = static_cast<const char*>(tensor.const_data_ptr());
    const void* end = begin + tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
    const auto next = ranges.upper_bound(begin);
    const bool before = next != ranges.begin() && std::prev(next)->second.first > begin;
    const bool after = next != ranges.end() && next->first < end;
    if (before || after) {
      const std::size_t other = before ? std::prev(next)->second.second : next->second.second;
      throw ConfigError("attach", found.specs[i].name, fmt::format("it shares memory with {}", found.specs[other].name),
                        "tie parameters by registering the same tensor twice");
    }
    ranges[begin] = {end, i};
  }
}

}  // namespace

bool is_running_statistic(std::string_view buffer) {
  const std::string_view own = buffer.substr(buffer.rfind('.') + 1);  // npos + 1 is 0
  return own == "running_mean" || own == "running_var";
}

ModuleParameters parameters_of(const torch::nn::Module& module, std::optional<DType> dtype) {
  ModuleParameters found;
  std::unordered_map<const at::TensorImpl*, std::size_t> known;
  const auto embeddings = embedding_weights(module);
  const auto in_fp32 = beside_statistics(module);
  for (const auto& item : module.named_parameters()) {
    const torch::Tensor& tensor = item.value();
    if (!tensor.defined()) continue;
    const auto [entry, fresh] = known.try_emplace(tensor.unsafeGetTensorImpl(), found.specs.size());
    if (!fresh) {
      found.specs[entry->second].aliases.push_back(item.key());
      continue;
    }
    check_supported(item.key(), tensor);
    const DType own = to_dtype(tensor.scalar_type(), item.key());
    const bool stays_fp32 = dtype && in_fp32.contains(tensor.unsafeGetTensorImpl());
    found.specs.push_back({.name = item.key(),
                           .shape = tensor.sizes().vec(),
                           .dtype = stays_fp32 ? DType::kFloat32 : dtype.value_or(own),
                           .trainable = tensor.requires_grad(),
                           .own_unit = embeddings.contains(tensor.unsafeGetTensorImpl())});
    found.tensors.push_back(tensor);
  }
  check_overlap(found);
  return found;
}

}  // namespace zero
