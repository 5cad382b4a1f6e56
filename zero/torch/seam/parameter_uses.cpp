#include "zero/torch/seam/parameter_uses.h"

#include <ATen/core/Tensor.h>

namespace zero {

ParameterUses::~ParameterUses() {
  for (const Use& use : uses_) use.handle->readers.remove();
}

void ParameterUses::add(const at::TensorBase& tensor, bool writes) {
  ParameterHandle* const handle = ParameterStorage::of(tensor);
  if (handle == nullptr) return;
  uses_.push_back({handle, handle->owner->use(handle->param, writes), writes});
  handle->readers.add();
}

void ParameterUses::wrote() {
  for (const Use& use : uses_)
    if (use.writes) use.handle->owner->wrote(use.handle->param, use.held);
}

const ParameterHandle* ParameterUses::first_written() const {
  for (const Use& use : uses_)
    if (use.writes) return use.handle;
  return nullptr;
}

}  // namespace zero
