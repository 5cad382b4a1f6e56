#include "zero/torch/pipeline/pass/section_pass.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <ATen/SequenceNumber.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/torch/deferred/tagged_tensor.h"
#include "zero/torch/pipeline/forward/operator_effects.h"
#include "zero/torch/seam/dispatch_key.h"
#include "zero/torch/seam/parameter_uses.h"

namespace zero {

namespace {

bool is_transpose_of(const at::Tensor& view, const at::Tensor& whole) {
  return whole.dim() == 2 && view.dim() == 2 && view.storage_offset() == whole.storage_offset() &&
         view.size(0) == whole.size(1) && view.size(1) == whole.size(0) && view.stride(0) == whole.stride(1) &&
         view.stride(1) == whole.stride(0);
}

// Whether no two elements have the same address.
bool has_own_elements(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // strides and sizes
  for (std::size_t dim = 0; dim < sizes.size(); ++dim)
    if (sizes[dim] > 1) dims.emplace_back(strides[dim], sizes[dim]);
  std::ranges::sort(dims);
  std::int64_t last = 0;  // address of the last element in the dimensions so far
  for (const auto& [stride, size] : dims) {
    if (stride <= last) return false;
    last += (size - 1) * stride;
  }
  return true;
}

// Draws as many random numbers as the operator, into memory that is then freed. Absent tensors count as zeros: they may
// be probabilities, and the count of numbers does not depend on values (draws_by_sizes()).
void draw_as_many(const c10::OperatorHandle& op, c10::DispatchKeySet keys, const torch::jit::Stack& stack) {
  torch::jit::Stack own(stack.end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size()), stack.end());
  replace_arguments(op, own, [](const at::Tensor& tensor) {
    if (!absent_value(tensor)) return tensor;
    return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).zero_();
  });
  const c10::AutoGradMode no_gradients(false);
  op.redispatchBoxed(below_parameter_key(keys), &own);
}

}  // namespace

// The node of a received tensor, or of an alias, in autograd's graph. It keeps the tensor's gradient, and ends the
// backward pass there. Activation checkpoints run backward passes of their own, which add to the gradient. A
// parameter's keeper has the sequence number of libtorch's AccumulateGrad, so autograd runs it as early.
class SectionPass::GradientKeeper final : public torch::autograd::Node {
 public:
  GradientKeeper(at::Tensor& gradient, bool is_parameter)
      : Node(is_parameter ? std::numeric_limits<std::uint64_t>::max() : at::sequence_number::get_and_increment()),
        gradient_(gradient) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    at::Tensor& more = gradients.front();
    if (!more.defined()) return {};
    gradient_ = gradient_.defined() ? gradient_ + more : std::move(more);
    return {};
  }

 private:
  at::Tensor& gradient_;
};

// The node of an alias's view in autograd's graph. It has the sequence number of the parameter's view. So autograd adds
// the gradients of a parameter's uses in the same order as without aliases.
class SectionPass::ViewOfAlias final : public torch::autograd::Node {
 public:
  // `view`: of the parameter. Its elements have addresses of their own, except in expanded dimensions.
  ViewOfAlias(const at::Tensor& whole, const at::Tensor& view)
      : Node(view.grad_fn()->sequence_nr(), torch::autograd::collect_next_edges(whole)),
        whole_sizes_(whole.sizes().vec()),
        sizes_(view.sizes().vec()),
        strides_(view.strides().vec()),
        offset_(view.storage_offset()),
        is_transpose_(is_transpose_of(view, whole)) {
    for (std::size_t dim = 0; dim < sizes_.size(); ++dim)
      if (strides_[dim] == 0) sizes_[dim] = std::min<std::int64_t>(sizes_[dim], 1);
  }
  bool is_possible() const { return has_own_elements(sizes_, strides_); }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::Tensor& gradient = gradients.front();
    if (!gradient.defined()) return {at::Tensor()};
    if (is_transpose_) return {gradient.t()};
    at::Tensor of_whole = at::zeros(whole_sizes_, gradient.options());
    of_whole.as_strided(sizes_, strides_, offset_).copy_(gradient.sum_to_size(sizes_));
    return {of_whole};
  }

 private:
  const std::vector<std::int64_t> whole_sizes_;
  std::vector<std::int64_t> sizes_;  // expanded dimensions have one element
  const std::vector<std::int64_t> strides_;
  const std::int64_t offset_;
  const bool is_transpose_;
};

SectionPass::SectionPass(const ForwardPlan& plan, Crossings& crossings, int section, int micro,
                         const ParameterOwner* shared, const ParameterOwner* split)
    : plan_(plan), crossings_(crossings), section_(section), micro_(micro), shared_(shared), split_(split) {
  if (split_ == nullptr) return;
  uses_.resize(plan_.graph.params.size(), 0);
  for (std::size_t number = 0; number < plan_.graph.operators.size(); ++number)
    if (plan_.sections.of_operator[number] == section_)
      for (const int param : plan_.graph.operators[number].params) ++uses_[static_cast<std::size_t>(param)];
}

SectionPass::~SectionPass() = default;

void SectionPass::forward(const std::function<at::Tensor()>& function) {
  at::Tensor loss;
  {
    const TakeOperators scope(*this);
    const c10::AutoGradMode recording(true);
    loss = function();
  }
  require_all_ran();
  if (plan_.section_of_value(plan_.graph.loss) == section_) loss_ = loss;
}

std::vector<at::Tensor> SectionPass::evaluate(const ForwardResults& function) {
  std::vector<at::Tensor> results;
  {
    const TakeOperators scope(*this);
    const c10::AutoGradMode no_gradients(false);
    results = function();
  }
  require_all_ran();
  made_.clear();
  received_.clear();
  aliases_.clear();
  return results;
}

void SectionPass::require_all_ran() const {
  if (number_ != static_cast<int>(plan_.operators.size()))
    throw ConfigError("passes", fmt::format("{} operators", number_),
                      fmt::format("the forward pass of micro-batch {} ended, and {} were planned, next {}", micro_,
                                  plan_.operators.size(), plan_.operators[static_cast<std::size_t>(number_)].text()),
                      "run the same operators on the same sizes in every pass");
}

void SectionPass::run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) {
  if (has_no_number(op)) {
    op.redispatchBoxed(below_parameter_key(keys), &stack);
    return;
  }
  const c10::impl::ExcludeDispatchKeyGuard outermost_only(kParameterKey);
  if (returns_no_tensor(op)) {
    if (plan_.equal_to_itself.contains(number_) && compares_with_itself(op, stack)) return answer_true(stack);
    op.redispatchBoxed(below_parameter_key(keys), &stack);
    return;
  }
  const PlannedOperator& planned = next(op, stack);
  const int number = number_++;
  const int section = plan_.sections.of_operator[static_cast<std::size_t>(number)];
  if (section == section_) {
    compute(planned, number, keys, stack);
  } else if (section == kEverywhere && region_.is_open()) {
    region_.run(stack);
  } else if (section == kEverywhere) {
    op.redispatchBoxed(below_parameter_key(keys), &stack);
  } else {
    walk_past(planned, number, keys, stack);
  }
}

std::vector<at::Tensor> SectionPass::run_together(const Function& function, const std::vector<at::Tensor>& inputs,
                                                  const std::vector<at::Tensor>& like) {
  return region_.take(function, inputs, like,
                      [&](const c10::OperatorHandle& op, torch::jit::Stack& stack) { run(op, {}, stack); });
}

const PlannedOperator& SectionPass::next(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto number = static_cast<std::size_t>(number_);
  const std::vector<std::int64_t> sizes = argument_sizes(op, stack);
  if (number < plan_.operators.size() && plan_.operators[number].op == op && plan_.operators[number].sizes == sizes) {
    const std::optional<bool>& updates = plan_.operators[number].updates;
    if (updates && *updates == updated_statistics(op, stack).empty())
      throw ConfigError("passes", call_text(op, sizes),
                        fmt::format("it {} running statistics, and the planned pass did {}",
                                    *updates ? "updates no" : "updates", *updates ? "so" : "not"),
                        "give calls of evaluate() in training and in evaluation mode different keys");
    return plan_.operators[number];
  }
  throw ConfigError("passes", call_text(op, sizes),
                    fmt::format("operator {} of the forward pass of micro-batch {}, and planned was {}", number_,
                                micro_, number < plan_.operators.size() ? plan_.operators[number].text() : "the end"),
                    "run the same operators on the same sizes in every pass");
}

bool SectionPass::comes_here(int value) const {
  const Crossing* const crossing = crossings_.of_value(value);
  return crossing != nullptr && std::ranges::find(crossing->to, section_) != crossing->to.end();
}

void SectionPass::set_keeper(const at::Tensor& tensor, at::Tensor& gradient, bool is_parameter) {
  const std::shared_ptr<torch::autograd::Node> node(new GradientKeeper(gradient, is_parameter),
                                                    torch::autograd::deleteNode);
  torch::autograd::set_history(tensor, node);
}

at::Tensor SectionPass::absent_result(const PlannedOperator& planned, int number, const PlannedTensor& tensor) {
  const TensorLayout& layout = plan_.values[static_cast<std::size_t>(tensor.value)];
  const int section = plan_.sections.of_operator[static_cast<std::size_t>(number)];
  at::Tensor absent =
      absent_tensor(tensor.value, layout, fmt::format("{} in section {}", planned.op.schema().name(), section));
  if (!comes_here(tensor.value)) {
    // Composite operators may ask whether a tensor needs a gradient.
    if (layout.requires_grad) set_keeper(absent, not_needed_);
    return absent;
  }
  auto received = std::make_unique<Received>();
  if (layout.requires_grad) set_keeper(absent, received->gradient);
  received->tensor = absent;
  received_[tensor.value] = std::move(received);
  return absent;
}

void SectionPass::walk_past(const PlannedOperator& planned, int number, c10::DispatchKeySet keys,
                            torch::jit::Stack& stack) {
  if (planned.draws) draw_as_many(planned.op, keys, stack);
  std::vector<at::Tensor> arguments;
  for_each_argument(planned.op, stack, [&](const at::Tensor& tensor, bool) { arguments.push_back(tensor); });
  torch::jit::drop(stack, planned.op.schema().arguments().size());
  const auto result = [&](const PlannedTensor& tensor) {
    if (tensor.same_as >= 0) return arguments[static_cast<std::size_t>(tensor.same_as)];
    return tensor.value < 0 ? at::Tensor() : absent_result(planned, number, tensor);
  };
  for (const PlannedReturn& planned_return : planned.returns) {
    if (!planned_return.is_list) {
      stack.emplace_back(result(planned_return.tensors.front()));
      continue;
    }
    c10::List<at::Tensor> list;
    for (const PlannedTensor& tensor : planned_return.tensors) list.push_back(result(tensor));
    stack.emplace_back(std::move(list));
  }
}

void SectionPass::receive(const at::Tensor& argument, int value) {
  if (value < 0)
    throw ConfigError("passes", plan_.operators[static_cast<std::size_t>(number_ - 1)].text(),
                      fmt::format("operator {} of the forward pass of micro-batch {} uses a parameter {} of another "
                                  "section, and in the planned pass it used a parameter of this section",
                                  number_ - 1, micro_, TensorLayout::of(argument).text()),
                      "use the same parameters in every pass");
  const auto found = received_.find(value);
  ZERO_CHECK(found != received_.end(), "value {} of {} does not come to section {}", value,
             TensorLayout::of(argument).text(), section_);
  fill_absent(found->second->tensor, crossings_.take_value(micro_, value));
}

// Returns the alias of a whole parameter, or a view of the alias with the sizes and strides of `parameter`. Autograd
// adds the gradient of such a view to the alias's gradient.
at::Tensor SectionPass::alias_of(const at::Tensor& parameter, const ParameterHandle& handle) {
  std::unique_ptr<Received>& alias = aliases_[{handle.owner, handle.param}];
  if (alias == nullptr) {
    const at::Tensor base = parameter.is_view() ? at::Tensor(parameter._base()) : parameter;
    alias = std::make_unique<Received>();
    alias->tensor = tensor_over(base.storage(), base.sizes().vec(), base.scalar_type(), /*keyed=*/true);
    if (base.requires_grad()) set_keeper(alias->tensor, alias->gradient, /*is_parameter=*/true);
  }
  const at::Tensor& whole = alias->tensor;
  const bool is_whole = whole.sizes() == parameter.sizes() && whole.strides() == parameter.strides();
  if (is_whole && parameter.storage_offset() == 0) return whole;
  if (parameter.grad_fn() != nullptr) {
    at::Tensor& view = alias->views[{parameter.grad_fn(), parameter.output_nr()}];
    if (!view.defined()) view = view_of_alias(whole, parameter);
    if (view.sizes() == parameter.sizes() && view.strides() == parameter.strides()) return view;
  }
  return whole.as_strided(parameter.sizes(), parameter.strides(), parameter.storage_offset());
}

at::Tensor SectionPass::view_of_alias(const at::Tensor& whole, const at::Tensor& parameter) {
  const std::shared_ptr<ViewOfAlias> node(new ViewOfAlias(whole, parameter), torch::autograd::deleteNode);
  if (!node->is_possible()) return whole.as_strided(parameter.sizes(), parameter.strides(), parameter.storage_offset());
  at::Tensor view = tensor_over(whole.storage(), whole.sizes().vec(), whole.scalar_type(), /*keyed=*/true);
  view.unsafeGetTensorImpl()->set_sizes_and_strides(parameter.sizes(), parameter.strides(), parameter.storage_offset());
  torch::autograd::set_history(view, node);
  return view;
}

// A tensor without a gradient, such as a detached parameter, needs no alias.
at::Tensor SectionPass::ready(const at::Tensor& argument) {
  if (!argument.defined()) return argument;
  if (const auto value = absent_value(argument)) {
    if (!is_filled(argument)) receive(argument, *value);
    return argument;
  }
  if ((shared_ == nullptr && split_ == nullptr) || !argument.requires_grad()) return argument;
  const ParameterHandle* const handle = ParameterStorage::of(argument);
  const bool has_alias = handle != nullptr && (handle->owner == shared_ || handle->owner == split_);
  return has_alias ? alias_of(argument, *handle) : argument;
}

const ParameterHandle* SectionPass::own_parameter(const at::Tensor& argument) const {
  const ParameterHandle* const handle = argument.defined() ? ParameterStorage::of(argument) : nullptr;
  return handle != nullptr && handle->owner == split_ ? handle : nullptr;
}

// A parameter with several uses does not wait, because autograd must add the gradients of its uses in autograd's order.
// In the first run of an activation checkpoint no product begins: only the second run has a backward pass.
std::shared_ptr<WeightProduct> SectionPass::begin_product(const PlannedOperator& planned, int number,
                                                          torch::jit::Stack& stack) {
  if (split_ == nullptr || first_runs_ > 0) return nullptr;
  const auto arguments = product_arguments(planned.op, stack);
  if (!arguments) return nullptr;
  for (const int param : plan_.graph.operators[static_cast<std::size_t>(number)].params)
    if (uses_[static_cast<std::size_t>(param)] > 1) return nullptr;
  const std::size_t first = stack.size() - planned.op.schema().arguments().size();
  const at::Tensor input = ready(stack[first + arguments->input].toTensor());
  const at::Tensor matrix = stack[first + arguments->matrix].toTensor();
  const ParameterHandle* const handle = own_parameter(matrix);
  if (handle == nullptr || ParameterStorage::of(input) != nullptr || !input.requires_grad() || !matrix.requires_grad())
    return nullptr;
  const at::Tensor base = matrix.is_view() ? at::Tensor(matrix._base()) : matrix;
  const bool transposed = is_transpose_of(matrix, base);
  const bool is_whole = matrix.sizes() == base.sizes() && matrix.strides() == base.strides();
  if ((!is_whole && !transposed) || !base.is_contiguous() || matrix.storage_offset() != 0) return nullptr;
  at::Tensor without_history = tensor_over(base.storage(), base.sizes().vec(), base.scalar_type(), /*keyed=*/true);
  stack[first + arguments->matrix] = transposed ? without_history.t() : without_history;
  auto product = std::make_shared<WeightProduct>();
  product->param = handle->param;
  product->transposed = transposed != arguments->by_transpose;
  product->input = input.detach();  // has the version counter of the input
  product->version = input._version();
  product->number = number;
  product->sizes = matrix.sizes().vec();
  product->strides = matrix.strides().vec();
  if (arguments->by_transpose) {
    std::swap(product->sizes[0], product->sizes[1]);
    std::swap(product->strides[0], product->strides[1]);
  }
  return product;
}

void SectionPass::compute(const PlannedOperator& planned, int number, c10::DispatchKeySet keys,
                          torch::jit::Stack& stack) {
  const std::shared_ptr<WeightProduct> product = begin_product(planned, number, stack);
  // begin_product() has replaced the matrix by a tensor without history. ready() would replace it again.
  const at::Tensor matrix =
      product == nullptr
          ? at::Tensor()
          : stack[stack.size() - planned.op.schema().arguments().size() + product_arguments(planned.op, stack)->matrix]
                .toTensor();
  replace_arguments(planned.op, stack,
                    [&](const at::Tensor& tensor) { return tensor.is_same(matrix) ? tensor : ready(tensor); });
  ParameterUses uses;
  for_each_argument(planned.op, stack, [&](const at::Tensor& tensor, bool written) {
    if (tensor.defined()) uses.add(tensor, written);
  });
  if (region_.is_open()) {
    region_.run_alone(stack);
  } else {
    planned.op.redispatchBoxed(below_parameter_key(keys), &stack);
  }
  if (product != nullptr) {
    stack.back().toTensor().register_hook([product](const at::Tensor& gradient) { product->gradient = gradient; });
    products_.push_back(product);
  }
  note_results(planned, number, stack);
}

// Keeps results that cross. Sends a result if no later operator writes it. A second run sends nothing.
void SectionPass::note_results(const PlannedOperator& planned, int number, const torch::jit::Stack& stack) {
  const std::size_t count = planned.returns.size();
  for (std::size_t i = 0; i < count; ++i) {
    const c10::IValue& result = stack[stack.size() - count + i];
    const PlannedReturn& planned_return = planned.returns[i];
    for (std::size_t j = 0; j < planned_return.tensors.size(); ++j) {
      const int value = planned_return.tensors[j].value;
      if (value < 0 || crossings_.of_value(value) == nullptr) continue;
      (*made_now_)[value] = planned_return.is_list ? result.toTensorVector()[j] : result.toTensor();
    }
  }
  if (made_now_ != &made_) return;
  for (const int value : plan_.graph.operators[static_cast<std::size_t>(number)].outputs) {
    const Crossing* const crossing = crossings_.of_value(value);
    if (crossing != nullptr && crossing->made_by == number) crossings_.send_value(micro_, value, made_.at(value));
  }
}

void SectionPass::backward(const at::Tensor& loss, std::vector<at::Tensor> leaves,
                           std::vector<at::Tensor> leaf_gradients) {
  // With `split`, aliases receive the gradients of parameters. Each lookup then adds to the gradient of the head.
  for (at::Tensor& leaf : leaves)
    if (const ParameterHandle* const handle = own_parameter(leaf)) leaf = alias_of(leaf, *handle);
  std::vector<at::Tensor> roots = std::move(leaves), gradients = std::move(leaf_gradients);
  const auto add_root = [&](const at::Tensor& tensor, at::Tensor gradient) {
    if (!gradient.defined()) return;
    roots.push_back(tensor);
    gradients.push_back(std::move(gradient));
  };
  if (loss.defined()) add_root(loss, at::ones_like(loss));
  for (const auto& [value, tensor] : made_)
    if (plan_.values[static_cast<std::size_t>(value)].requires_grad)
      add_root(tensor, crossings_.take_gradient(micro_, value, section_));
  // Gradients from later sections are roots. So autograd adds this section's part to them, in the order of one backward
  // pass over all sections.
  for (const auto& [value, received] : received_) {
    const Crossing& crossing = *crossings_.of_value(value);
    if (crossing.to.back() == section_ || !plan_.values[static_cast<std::size_t>(value)].requires_grad) continue;
    add_root(received->tensor, crossings_.take_gradient(micro_, value, section_));
  }
  made_.clear();
  loss_.reset();
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  for (const auto& [value, received] : received_)
    if (plan_.values[static_cast<std::size_t>(value)].requires_grad)
      crossings_.send_gradient(micro_, value, section_, received->gradient);
  received_.clear();
}

void SectionPass::take_shared(SharedGradients& gradients) {
  for (auto& [key, alias] : aliases_)
    if (key.first == shared_ && alias->gradient.defined()) gradients[{micro_, key.second}] = std::move(alias->gradient);
  std::erase_if(aliases_, [this](const auto& entry) { return entry.first.first == shared_; });
}

std::map<int, at::Tensor> SectionPass::take_gradients() {
  const c10::AutoGradMode no_gradients(false);
  std::map<int, at::Tensor> gradients;
  for (auto& [key, alias] : aliases_)
    if (alias->gradient.defined()) gradients[key.second] = std::move(alias->gradient);
  aliases_.clear();
  for (auto product = products_.rbegin(); product != products_.rend(); ++product) {
    if (!(*product)->gradient.defined()) continue;
    if (!(*product)->has_its_input())
      throw ConfigError(
          "passes", plan_.operators[static_cast<std::size_t>((*product)->number)].text(),
          "the input of this product was written in place later, and the gradient of its weight needs the first values",
          "compute a new tensor instead (x = x + y, not x += y): libtorch refuses this write in every order of passes");
    const bool is_new = gradients.emplace((*product)->param, (*product)->gradient_of_parameter()).second;
    ZERO_CHECK(is_new, "parameter {} has a second use", (*product)->param);
    product->reset();
  }
  products_.clear();
  return gradients;
}

}  // namespace zero
