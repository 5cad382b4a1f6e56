// run_with_parameters(): the fallback for every operator on a parameter, or on a view of a parameter. It gathers the
// parameters, runs the operator below kParameterKey, and releases them again. Operators on no parameter are not
// dispatched to it.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/MathBitFallThroughLists.h>
#include <ATen/ops/_has_compatible_shallow_copy_type_ops.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include "zero/torch/deferred/recording.h"
#include "zero/torch/seam/dispatch_key.h"
#include "zero/torch/seam/gradient_watch.h"
#include "zero/torch/seam/parameter_storage.h"

namespace zero {
namespace {

// The units that an operator holds while it runs. The destructor gives pins back, also after an exception.
class OperatorUses {
 public:
  void add(const at::Tensor& tensor, bool writes) {
    const ParameterHandle* handle = ParameterStorage::of(tensor);
    if (handle == nullptr) return;
    held_.push_back(handle->owner->use(handle->param, writes));
    if (writes) written_.push_back({handle, held_.size() - 1});
  }

  void add(const c10::IValue& value, bool writes) {
    if (value.isTensor()) {
      add(value.toTensor(), writes);
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) add(tensor, writes);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        if (tensor.has_value()) add(*tensor, writes);
      }
    }
  }

  // Called after the operator.
  void wrote() {
    for (const Written& written : written_) written.handle->owner->wrote(written.handle->param, held_[written.held]);
  }

  // embedding_renorm_() writes the rows whose numbers are in its second argument. Batches differ between ranks, so each
  // rank writes the rows of all ranks.
  void share_rows(const c10::OperatorHandle& op, torch::jit::Stack& stack) const {
    static const c10::OperatorHandle kRenorm =
        c10::Dispatcher::singleton().findSchemaOrThrow("aten::embedding_renorm_", "");
    if (written_.empty() || !(op == kRenorm)) return;
    c10::IValue& rows = stack[stack.size() - op.schema().arguments().size() + 1];
    const ParameterHandle& table = *written_.front().handle;
    rows = table.owner->rows_of_all_ranks(table.param, rows.toTensor());
  }

 private:
  struct Written {
    const ParameterHandle* handle;
    std::size_t held;
  };
  c10::SmallVector<GatheredUnit, 4> held_;
  c10::SmallVector<Written, 4> written_;
};

void run_with_parameters(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (Recorder* recorder = Recorder::current()) {
    recorder->run(op, keys, *stack);
    return;
  }
  const auto& arguments = op.schema().arguments();
  OperatorUses uses;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = arguments[i].alias_info();
    uses.add((*stack)[stack->size() - arguments.size() + i], alias != nullptr && alias->isWrite());
  }
  uses.share_rows(op, *stack);
  op.redispatchBoxed(below_parameter_key(keys), stack);
  uses.wrote();
}

// set_data() calls it first. Module.to() of Python calls it on each parameter, also if the data stay.
bool compares_types(c10::DispatchKeySet keys, const at::Tensor& self, const at::Tensor& from) {
  expect_move(self);
  return at::_ops::_has_compatible_shallow_copy_type::redispatch(below_parameter_key(keys), self, from);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, DeferredInit, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_with_parameters>());
}

// These operators read no data: they work on a released parameter, and their results keep the key.
TORCH_LIBRARY_IMPL(aten, DeferredInit, m) {
  TORCH_VIEW_FNS(m)
  m.impl("as_strided", torch::CppFunction::makeFallthrough());
  m.impl("view", torch::CppFunction::makeFallthrough());
  m.impl("slice.Tensor", torch::CppFunction::makeFallthrough());
  m.impl("_has_compatible_shallow_copy_type", &compares_types);
}

}  // namespace zero
