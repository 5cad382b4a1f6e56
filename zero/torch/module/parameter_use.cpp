// run_with_parameters(): the fallback for every operator on a parameter, or on a view of a parameter. It gathers the
// parameters, runs the operator below kParameterKey, and releases them again. Operators on no parameter are not
// dispatched to it.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/MathBitFallThroughLists.h>
#include <ATen/ops/_has_compatible_shallow_copy_type_ops.h>
#include <ATen/ops/clone.h>
#include <torch/library.h>

#include "zero/base/process/host_language.h"
#include "zero/torch/seam/dispatch_key.h"
#include "zero/torch/seam/gradient_watch.h"
#include "zero/torch/seam/operator_taker.h"
#include "zero/torch/seam/parameter_uses.h"

namespace zero {
namespace {

void add(ParameterUses& uses, const c10::IValue& value, bool writes) {
  if (value.isTensor()) {
    uses.add(value.toTensor(), writes);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) uses.add(tensor, writes);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor.has_value()) uses.add(*tensor, writes);
    }
  }
}

// embedding_renorm_() writes the rows whose numbers are in its second argument. Batches differ between ranks, so each
// rank writes the rows of all ranks.
void share_rows(const ParameterUses& uses, const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  static const c10::OperatorHandle kRenorm =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::embedding_renorm_", "");
  const ParameterHandle* const table = uses.first_written();
  if (table == nullptr || !(op == kRenorm)) return;
  c10::IValue& rows = stack[stack.size() - op.schema().arguments().size() + 1];
  rows = table->owner->rows_of_all_ranks(table->param, rows.toTensor());
}

void run_with_parameters(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (OperatorTaker* taker = OperatorTaker::current()) {
    with_host_errors([&] { taker->run(op, keys, *stack); });
    return;
  }
  const auto& arguments = op.schema().arguments();
  ParameterUses uses;
  with_host_errors([&] {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const c10::AliasInfo* alias = arguments[i].alias_info();
      add(uses, (*stack)[stack->size() - arguments.size() + i], alias != nullptr && alias->isWrite());
    }
    share_rows(uses, op, *stack);
  });
  op.redispatchBoxed(below_parameter_key(keys), stack);
  uses.wrote();
}

// resolve_conj() and resolve_neg() return their argument if there is nothing to do. numpy() and tolist() of Python call
// both, and then keep the memory of the result. So the result is a copy, except in a gathered() scope.
void resolve(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const at::Tensor self = stack->back().toTensor();
  const ParameterHandle* const handle = OperatorTaker::current() != nullptr ? nullptr : ParameterStorage::of(self);
  if (handle == nullptr || handle->readers.in_scope()) return run_with_parameters(op, keys, stack);
  stack->back() = self.clone();
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
  m.impl("resolve_conj", torch::CppFunction::makeFromBoxedFunction<&resolve>());
  m.impl("resolve_neg", torch::CppFunction::makeFromBoxedFunction<&resolve>());
  m.impl("_has_compatible_shallow_copy_type", &compares_types);
}

}  // namespace zero
