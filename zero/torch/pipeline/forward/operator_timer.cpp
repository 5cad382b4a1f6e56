#include "zero/torch/pipeline/forward/operator_timer.h"

#include <algorithm>
#include <mutex>
#include <sstream>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include "zero/base/process/clock.h"
#include "zero/torch/pipeline/forward/forward_plan.h"
#include "zero/torch/pipeline/forward/weight_product.h"

namespace zero {
namespace {

constexpr double kMostSeconds = 5;             // of all measurements
constexpr double kMostSecondsOfOperator = .3;  // after which no further run begins
constexpr int kMostRuns = 4;                   // the first one is the warm-up

// Gives the default generator its state back after operators that draw numbers.
class RestoredGenerator {
 public:
  RestoredGenerator() : generator_(at::detail::getDefaultCPUGenerator()), state_(generator_.get_state()) {}
  RestoredGenerator(const RestoredGenerator&) = delete;
  RestoredGenerator& operator=(const RestoredGenerator&) = delete;
  ~RestoredGenerator() { generator_.set_state(state_); }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

std::string key_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::ostringstream key;
  key << op.operator_name();
  const auto add = [&key](const at::Tensor& tensor) {
    if (!tensor.defined()) {
      key << " none";
      return;
    }
    key << ' ' << tensor.scalar_type() << tensor.sizes() << tensor.strides() << tensor.requires_grad();
  };
  const std::size_t count = op.schema().arguments().size();
  for (std::size_t i = stack.size() - count; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    if (!value.isTensor() && !value.isTensorList() && !value.isOptionalTensorList()) key << ' ' << value;
  }
  for_each_argument(op, stack, [&](const at::Tensor& tensor, bool) { add(tensor); });
  return key.str();
}

// Returns a tensor with values that has the layout of a tensor on the meta device.
at::Tensor with_values(const at::Tensor& meta, at::Generator& generator) {
  if (!meta.defined() || !meta.is_meta()) return meta;
  std::int64_t numel = meta.numel() > 0 ? 1 : 0;
  for (std::int64_t dim = 0; dim < meta.dim() && numel > 0; ++dim) numel += (meta.size(dim) - 1) * meta.stride(dim);
  at::Tensor tensor;
  {
    const c10::AutoGradMode no_gradients(false);
    const at::Tensor storage = at::empty({numel}, at::TensorOptions().dtype(meta.scalar_type()).device(c10::kCPU));
    if (at::isFloatingType(meta.scalar_type())) {
      storage.uniform_(-1, 1, generator);
    } else {
      storage.fill_(meta.scalar_type() == at::kBool ? 1 : 0);
    }
    tensor = storage.as_strided(meta.sizes(), meta.strides()).detach();
  }
  return meta.requires_grad() ? tensor.requires_grad_(true) : tensor;
}

// Arguments whose gradients are timed together: the inputs of an operator, or its parameters.
struct TimedArguments {
  std::vector<at::Tensor> tensors;
  double seconds = 0;
};

void keep_shorter(double& kept, double seconds, bool is_first) {
  kept = is_first ? seconds : std::min(kept, seconds);
}

void time_gradients(TimedArguments& timed, const std::vector<at::Tensor>& results,
                    const std::vector<at::Tensor>& gradients, bool is_first) {
  if (timed.tensors.empty() || results.empty()) return;
  const double begin = monotonic_seconds();
  torch::autograd::grad(results, timed.tensors, gradients, /*retain_graph=*/true, /*create_graph=*/false,
                        /*allow_unused=*/true);
  keep_shorter(timed.seconds, monotonic_seconds() - begin, is_first);
}

OperatorSeconds measure(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                        const std::vector<bool>& of_params) {
  const RestoredGenerator restored;
  at::Generator values = at::detail::createCPUGenerator(1);
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  torch::jit::Stack arguments(stack.end() - count, stack.end());
  TimedArguments inputs, weights;
  bool writes = false;
  replace_arguments(op, arguments, [&](const at::Tensor& meta) { return with_values(meta, values); });
  for_each_argument(op, arguments, [&, at = std::size_t{0}](const at::Tensor& tensor, bool written) mutable {
    const bool is_param = at < of_params.size() && of_params[at];
    ++at;
    writes = writes || written;
    if (tensor.defined() && tensor.requires_grad()) (is_param ? weights : inputs).tensors.push_back(tensor);
  });
  const c10::AutoGradMode recording(c10::GradMode::is_enabled() && !writes);
  OperatorSeconds seconds;
  std::vector<at::Tensor> gradients;
  const double start = monotonic_seconds();
  for (int run = 0; run < kMostRuns; ++run) {
    if (run > 1 && monotonic_seconds() - start > kMostSecondsOfOperator) break;
    const bool is_first = run <= 1;  // the warm-up's time is replaced
    torch::jit::Stack of_run = arguments;
    const double begin = monotonic_seconds();
    op.callBoxed(&of_run);
    keep_shorter(seconds.forward, monotonic_seconds() - begin, is_first);
    std::vector<at::Tensor> results;
    for (const c10::IValue& value : of_run) {
      if (value.isTensor() && value.toTensor().defined() && value.toTensor().requires_grad())
        results.push_back(value.toTensor());
      if (value.isTensorList())
        for (const at::Tensor& tensor : value.toTensorVector())
          if (tensor.requires_grad()) results.push_back(tensor);
    }
    if (gradients.empty())
      for (const at::Tensor& result : results) gradients.push_back(at::ones_like(result.detach()));
    time_gradients(inputs, results, gradients, is_first);
    time_gradients(weights, results, gradients, is_first);
  }
  seconds.inputs = writes ? seconds.forward : inputs.seconds;
  seconds.weights = weights.seconds;
  if (!product_arguments(op, arguments)) seconds.inputs += std::exchange(seconds.weights, 0.0);
  return seconds;
}

}  // namespace

OperatorSeconds OperatorTimer::time(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                                    const std::vector<bool>& of_params) {
  const std::string key = key_of(op, stack);
  if (const auto found = measured_.find(key); found != measured_.end()) return found->second;
  if (spent_ > kMostSeconds) return {};
  const double begin = monotonic_seconds();
  OperatorSeconds seconds;
  try {
    seconds = measure(op, stack, of_params);
  } catch (const c10::Error&) {
    seconds = {};  // the operator refuses such values, so fill_gaps() estimates its time
  }
  spent_ += monotonic_seconds() - begin;
  measured_[key] = seconds;
  return seconds;
}

void OperatorTimer::fill_gaps(ForwardGraph& graph) {
  double seconds = 0, work = 0;
  for (const GraphOperator& op : graph.operators) {
    if (op.seconds.total() == 0) continue;
    seconds += op.seconds.total();
    work += op.work;
  }
  if (work == 0) return;
  for (GraphOperator& op : graph.operators) {
    if (op.seconds.total() > 0 || op.everywhere) continue;
    const double third = op.work * seconds / work / 3;
    op.seconds = {.forward = third, .inputs = third, .weights = third};
  }
}

}  // namespace zero
