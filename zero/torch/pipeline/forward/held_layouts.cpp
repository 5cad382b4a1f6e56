#include "zero/torch/pipeline/forward/held_layouts.h"

#include <ATen/ops/empty.h>

#include "zero/torch/deferred/tagged_tensor.h"
#include "zero/torch/pipeline/forward/absent_tensor.h"
#include "zero/torch/seam/tensor_type.h"

namespace zero {

at::Tensor absent_parameter(const ParamSpec& spec) {
  const at::Tensor layout =
      at::empty(spec.shape, at::TensorOptions().dtype(to_scalar_type(spec.dtype)).device(c10::kMeta));
  return absent_tensor(-1, TensorLayout::of(layout), spec.name);
}

HeldLayouts::HeldLayouts(const ModuleParameters& parameters) {
  for (std::size_t param = 0; param < parameters.tensors.size(); ++param) {
    const at::Tensor& tensor = parameters.tensors[param];
    if (!tensor.is_meta() && tensor.scalar_type() == to_scalar_type(parameters.specs[param].dtype)) continue;
    own_.emplace_back(tensor, at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
                                  c10::VariableVersion(0), /*allow_tensor_metadata_change=*/true)));
    replace_data(tensor, absent_parameter(parameters.specs[param]));
  }
}

HeldLayouts::~HeldLayouts() {
  for (const auto& [tensor, data] : own_) replace_data(tensor, data);
}

}  // namespace zero
