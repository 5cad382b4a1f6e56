#include "zero/torch/attached/other_holders.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "zero/base/error/log.h"
#include "zero/base/text/bytes.h"

namespace zero {
namespace {

// The model's own tensors, by storage.
using Holders = std::unordered_map<const c10::StorageImpl*, std::unordered_set<const at::TensorImpl*>>;

const c10::StorageImpl* storage_of(const torch::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

// A view of another tensor keeps that tensor alive.
void add(const torch::Tensor& tensor, Holders& holders) {
  auto& of_storage = holders[storage_of(tensor)];
  of_storage.insert(tensor.unsafeGetTensorImpl());
  if (tensor.is_view()) of_storage.insert(tensor._base().unsafeGetTensorImpl());
}

bool overlap(const torch::Tensor& a, const torch::Tensor& b) {
  const auto begin = [](const torch::Tensor& tensor) {
    return tensor.storage_offset() * static_cast<std::int64_t>(tensor.element_size());
  };
  const auto end = [&](const torch::Tensor& tensor) {
    return begin(tensor) + static_cast<std::int64_t>(tensor.nbytes());
  };
  return storage_of(a) == storage_of(b) && begin(a) < end(b) && begin(b) < end(a);
}

}  // namespace

std::vector<std::string> held_elsewhere(const ModuleParameters& found, const ModelTensors& model) {
  Holders holders;
  for (const torch::Tensor& tensor : found.tensors) add(tensor, holders);
  // A buffer in one allocation with parameters is not a view of a parameter.
  for (const ModelTensors::Buffer& buffer : model.buffers) {
    if (!buffer.tensor.defined() || !buffer.tensor.has_storage() || !holders.contains(storage_of(buffer.tensor)))
      continue;
    const bool is_view = std::ranges::any_of(
        found.tensors, [&](const torch::Tensor& parameter) { return overlap(parameter, buffer.tensor); });
    if (!is_view) add(buffer.tensor, holders);
  }
  std::vector<std::string> names;
  for (std::size_t param = 0; param < found.tensors.size(); ++param) {
    const c10::StorageImpl* const storage = storage_of(found.tensors[param]);
    if (found.tensors[param].storage().use_count() > holders.at(storage).size())
      names.push_back(found.specs[param].name);
  }
  return names;
}

void warn_of_other_holders(const ModuleParameters& found, const ModelTensors& model) {
  const std::vector<std::string> names = held_elsewhere(found, model);
  if (names.empty()) return;
  const std::string others =
      names.size() == 1 ? "" : fmt::format(" (and that of {})", format_count(std::ssize(names) - 1, "other parameter"));
  ZERO_LOG(warn,
           "{}: another tensor shares the memory of this parameter{}: a view, a detach(), or the graph of a forward "
           "pass before attach(). Training does not update that tensor: create it after attach(), in each forward pass",
           names.front(), others);
}

}  // namespace zero
