#include "zero/torch/attached/attached_parameters.h"

#include <algorithm>
#include <unordered_set>

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include "zero/base/error/error.h"
#include "zero/device/host_copy.h"
#include "zero/engine/states/parameter_writes.h"
#include "zero/torch/deferred/tagged_tensor.h"
#include "zero/torch/seam/tensor_type.h"
#include "zero/torch/seam/torch_device.h"

namespace zero {
namespace {

std::int64_t byte_offset(const Unit& unit, const Slice& slice) {
  return slice.offset * static_cast<std::int64_t>(size_of(unit.dtype));
}

}  // namespace

AttachedParameters::AttachedParameters(ModuleParameters found, std::vector<Unit> units, ParameterOwner& owner,
                                       Device& memory)
    : owner_(owner),
      memory_(memory),
      tensors_(std::move(found.tensors)),
      specs_(std::move(found.specs)),
      units_(std::move(units)),
      addresses_(addresses_of(units_, specs_.size())) {
  for (std::size_t param = 0; param < specs_.size(); ++param) {
    storages_.emplace_back(owner, static_cast<int>(param), specs_[param].name,
                           static_cast<std::size_t>(specs_[param].numel()) * size_of(specs_[param].dtype),
                           place_of(memory));
  }
}

// Parameters that are not given back must not point to a destroyed handle: each keeps an empty storage of its own.
AttachedParameters::~AttachedParameters() {
  for (std::size_t param = 0; param < tensors_.size(); ++param) {
    const ParameterHandle* handle = ParameterStorage::of(tensors_[param]);
    if (handle == nullptr || handle->owner != &owner_) continue;
    storages_[param].leave_empty(specs_[param].name);
    replace(param, /*keyed=*/false);
  }
}

const Slice& AttachedParameters::slice(int param) const {
  const SliceAddress& at = address(param);
  return units_[static_cast<std::size_t>(at.unit)].slices[static_cast<std::size_t>(at.slice)];
}

int AttachedParameters::find(const std::string& name, std::string_view key) const {
  const auto found = std::ranges::find_if(specs_, [&](const ParamSpec& spec) {
    return spec.name == name || std::ranges::find(spec.aliases, name) != spec.aliases.end();
  });
  if (found == specs_.end())
    throw ConfigError(key, name, "no parameter of the attached model has this name",
                      "use a name that parameters() lists");
  return static_cast<int>(found - specs_.begin());
}

std::vector<int> AttachedParameters::units_of(std::span<const torch::Tensor> tensors, const std::string& of) const {
  std::unordered_set<const at::TensorImpl*> wanted;
  for (const torch::Tensor& tensor : tensors)
    if (!counts_as_buffer(tensor)) wanted.insert(tensor.unsafeGetTensorImpl());  // whole on every rank
  std::vector<int> units;
  std::size_t found = 0;
  for (std::size_t param = 0; param < tensors_.size(); ++param) {
    if (!wanted.contains(tensors_[param].unsafeGetTensorImpl())) continue;
    ++found;
    units.push_back(addresses_[param].unit);
  }
  if (found != wanted.size())
    throw ConfigError("gathered", of, "this module is not the attached module, and not inside it",
                      "pass a module, or tensors, whose parameters were attached");
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

void AttachedParameters::replace(std::size_t param, bool keyed) {
  c10::AutoGradMode no_gradients(false);
  replace_data(tensors_[param], tensor_over(storages_[param].storage(), specs_[param].shape,
                                            to_scalar_type(specs_[param].dtype), keyed));
}

void AttachedParameters::take_over(const Unit& unit) {
  for (const Slice& slice : unit.slices) {
    const auto param = static_cast<std::size_t>(slice.param);
    tensors_[param].mutable_grad().reset();
    replace(param, /*keyed=*/true);
  }
}

void AttachedParameters::point_to(const Unit& unit, std::byte* data) {
  for (const Slice& slice : unit.slices)
    storages_[static_cast<std::size_t>(slice.param)].point_to(data == nullptr ? nullptr
                                                                              : data + byte_offset(unit, slice));
}

void AttachedParameters::give_back(const Unit& unit, const std::byte* data) {
  for (const Slice& slice : unit.slices) {
    const auto param = static_cast<std::size_t>(slice.param);
    const std::size_t bytes = storages_[param].storage().nbytes();
    c10::DataPtr own = c10::GetAllocator(place_of(memory_).type())->allocate(bytes);
    memory_.copy(Lane::kCompute, {static_cast<std::byte*>(own.get()), bytes}, {data + byte_offset(unit, slice), bytes});
    storages_[param].give_back(std::move(own));
    replace(param, /*keyed=*/false);
    storages_[param].let_go();
  }
  memory_.join(memory_.mark(Lane::kCompute));
}

std::uint64_t AttachedParameters::hash_of(int param, const std::byte* unit) const {
  const SliceAddress& at = address(param);
  const std::byte* const begin = unit + byte_offset(units_[static_cast<std::size_t>(at.unit)], slice(param));
  const HostCopy bytes(memory_, Lane::kCompute, {begin, storages_[static_cast<std::size_t>(param)].storage().nbytes()});
  return bytes_hash({bytes.data(), storages_[static_cast<std::size_t>(param)].storage().nbytes()});
}

void AttachedParameters::require_unchanged() const {
  for (std::size_t param = 0; param < tensors_.size(); ++param) {
    const ParameterHandle* handle = ParameterStorage::of(tensors_[param]);
    if (handle != nullptr && handle->owner == &owner_) continue;
    throw ConfigError("attach", specs_[param].name,
                      "this parameter was replaced after attach() (Module::to, set_data or an assignment)",
                      "convert and move the module before attach()");
  }
}

}  // namespace zero
