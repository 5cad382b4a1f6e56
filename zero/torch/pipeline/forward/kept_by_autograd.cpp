#include "zero/torch/pipeline/forward/kept_by_autograd.h"

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <utility>

#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "zero/torch/meta/meta_kernels.h"
#include "zero/torch/pipeline/forward/forward_plan.h"
#include "zero/torch/seam/dispatch_key.h"
#include "zero/torch/seam/operator_taker.h"

namespace zero {
namespace {

using torch::autograd::Node;
using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

WeakStorage memory_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().getWeakStorageImpl()
                                                  : WeakStorage(c10::intrusive_ptr<c10::StorageImpl>());
}

// The node of an argument in autograd's graph. An argument may not be a leaf, because a leaf's node keeps the leaf.
struct ArgumentNode final : Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
};

std::shared_ptr<Node> make_node() {
  std::shared_ptr<Node> node(new ArgumentNode, torch::autograd::deleteNode);
  node->add_input_metadata(Node::undefined_input());
  return node;
}

template <typename Visit>
void for_each_result(const torch::jit::Stack& stack, Visit visit) {
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) visit(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  }
}

// Notes the memory of all results. This includes the results of operators that autograd calls for tensors of its own.
class ResultWatch final : public OperatorTaker {
 public:
  void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) override {
    op.redispatchBoxed(below_parameter_key(keys), &stack);
    const auto count = static_cast<std::ptrdiff_t>(op.schema().returns().size());
    for_each_result(torch::jit::Stack(stack.end() - count, stack.end()),
                    [this](const at::Tensor& result) { made_.push_back(memory_of(result)); });
  }

  // Returns the bytes of the results that still exist and are not in `known`.
  std::int64_t live_bytes(std::unordered_set<const c10::StorageImpl*> known) const {
    std::int64_t bytes = 0;
    for (const WeakStorage& memory : made_) {
      const c10::intrusive_ptr<c10::StorageImpl> live = memory.lock();
      if (live && known.insert(live.get()).second) bytes += static_cast<std::int64_t>(live->nbytes());
    }
    return bytes;
  }

 private:
  std::vector<WeakStorage> made_;
};

void run_watched(const c10::OperatorHandle& op, torch::jit::Stack& stack, ResultWatch& watch) {
  const c10::impl::LocalDispatchKeySet now = c10::impl::tls_local_dispatch_key_set();
  const c10::impl::ForceDispatchKeyGuard taken(now.included_, now.excluded_.remove(kParameterKey));
  const TakeOperators scope(watch);
  const MetaKernels kernels;
  op.callBoxed(&stack);
}

}  // namespace

KeptByAutograd kept_by_autograd(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (!c10::GradMode::is_enabled()) return {};
  torch::jit::Stack own(stack.end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size()), stack.end());
  std::vector<WeakStorage> arguments, results;
  replace_arguments(op, own, [&](const at::Tensor& tensor) {
    at::Tensor copy = tensor;
    if (tensor.defined() && tensor.is_meta()) {
      copy = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
      if (tensor.requires_grad()) torch::autograd::impl::set_gradient_edge(copy, {make_node(), 0});
    }
    arguments.push_back(memory_of(copy));
    return copy;
  });
  ResultWatch watch;
  run_watched(op, own, watch);
  std::vector<std::shared_ptr<Node>> nodes;
  for_each_result(own, [&](const at::Tensor& result) {
    results.push_back(memory_of(result));
    if (result.defined()) nodes.push_back(result.grad_fn());
  });
  own.clear();
  KeptByAutograd kept;
  std::unordered_set<const c10::StorageImpl*> known;
  const auto add_live = [&known](const std::vector<WeakStorage>& memories, std::vector<std::size_t>& numbers) {
    for (std::size_t i = 0; i < memories.size(); ++i) {
      const c10::intrusive_ptr<c10::StorageImpl> live = memories[i].lock();
      if (!live) continue;
      known.insert(live.get());
      numbers.push_back(i);
    }
  };
  add_live(arguments, kept.arguments);
  add_live(results, kept.results);
  kept.own_bytes = watch.live_bytes(std::move(known));
  return kept;
}

}  // namespace zero
