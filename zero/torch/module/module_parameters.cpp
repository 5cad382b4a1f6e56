#include "zero/torch/module/module_parameters.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "zero/base/error/error.h"
#include "zero/torch/deferred/deferred.h"
#include "zero/torch/seam/dispatch_key.h"
#include "zero/torch/seam/tensor_type.h"

namespace zero {
namespace {

void check_supported(const std::string& name, const torch::Tensor& tensor) {
  if (tensor.key_set().has(kParameterKey)) {
    throw ConfigError("attach", name, "this parameter is attached already",
                      "destroy the first Engine before making another");
  }
  if (!tensor.has_storage() || tensor.layout() != at::kStrided) {
    throw ConfigError("attach", name, "not a dense tensor", "zero.cpp shards dense parameters");
  }
  if (!tensor.is_cpu() && !tensor.is_meta() && !tensor.is_cuda()) {
    throw ConfigError("attach", name, fmt::format("it is on {}", tensor.device().str()),
                      "zero.cpp trains on the CPU and on CUDA: move the module there first");
  }
  if (tensor.is_meta() && !is_deferred(tensor)) {
    throw ConfigError("attach", name, "it has no data and no recording",
                      "construct the module inside zero::deferred(), and do not convert it before attach()");
  }
  if (!tensor.is_leaf())
    throw ConfigError("attach", name, "it was computed from other tensors",
                      "give the leaves of the model: tensors with requires_grad that no operator computed");
  if (tensor.is_inference())
    throw ConfigError("attach", name, "it is an inference tensor", "construct the module outside InferenceMode");
}

// Checks that all parameters are on one device. Deferred parameters have no device yet.
void check_device(const ModuleParameters& found) {
  const torch::Tensor* first = nullptr;
  for (std::size_t i = 0; i < found.tensors.size(); ++i) {
    const torch::Tensor& tensor = found.tensors[i];
    if (tensor.is_meta()) continue;
    if (first == nullptr) first = &tensor;
    if (tensor.device() != first->device())
      throw ConfigError(
          "attach", found.specs[i].name,
          fmt::format("it is on {}, and other parameters are on {}", tensor.device().str(), first->device().str()),
          "move the whole module to one device");
  }
}

// Throws if two parameters overlap: attached, each would get memory of its own and they would differ. Two parameters in
// one allocation without an overlap are allowed.
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

ModuleParameters parameters_of(const torch::nn::Module& module, std::optional<DType> dtype) {
  return parameters_of(tensors_of(module), dtype);
}

ModuleParameters parameters_of(const ModelTensors& model, std::optional<DType> dtype) {
  ModuleParameters found;
  std::unordered_map<const at::TensorImpl*, std::size_t> known;
  for (const auto& [name, tensor, own_unit, stays_fp32] : model.parameters) {
    if (!tensor.defined() || counts_as_buffer(tensor)) continue;
    const auto [entry, fresh] = known.try_emplace(tensor.unsafeGetTensorImpl(), found.specs.size());
    if (!fresh) {
      found.specs[entry->second].aliases.push_back(name);
      continue;
    }
    check_supported(name, tensor);
    const DType own = to_dtype(tensor.scalar_type(), name);
    found.specs.push_back({.name = name,
                           .shape = tensor.sizes().vec(),
                           .dtype = dtype && stays_fp32 ? DType::kFloat32 : dtype.value_or(own),
                           .trainable = tensor.requires_grad(),
                           .own_unit = own_unit});
    found.tensors.push_back(tensor);
  }
  for (const ModelTensors::Buffer& buffer : model.buffers)
    if (buffer.tensor.defined() && known.try_emplace(buffer.tensor.unsafeGetTensorImpl(), 0).second)
      found.buffers.push_back(buffer);
  check_device(found);
  check_overlap(found);
  return found;
}

}  // namespace zero
