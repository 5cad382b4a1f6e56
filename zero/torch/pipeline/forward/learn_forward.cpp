// learn_forward(): declared in forward_plan.h.
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/process/host_language.h"
#include "zero/torch/deferred/surroundings.h"
#include "zero/torch/meta/meta_kernels.h"
#include "zero/torch/pipeline/forward/buffer_uses.h"
#include "zero/torch/pipeline/forward/forward_plan.h"
#include "zero/torch/pipeline/forward/kept_by_autograd.h"
#include "zero/torch/pipeline/forward/operator_effects.h"
#include "zero/torch/pipeline/forward/operator_timer.h"
#include "zero/torch/pipeline/forward/region.h"
#include "zero/torch/pipeline/forward/weight_product.h"
#include "zero/torch/seam/dispatch_key.h"
#include "zero/torch/seam/operator_taker.h"
#include "zero/torch/seam/tensor_type.h"

namespace zero {
namespace {

constexpr std::string_view kNoValues =
    "read values after passes() or inside zero::together(), or use operators whose results have shapes that do not "
    "depend on values";

[[noreturn]] void refuse_operator(const c10::OperatorHandle& op, std::string_view reason, std::string_view remedy) {
  throw ConfigError("passes", op.schema().name(), reason, remedy);
}

// Drops the warnings of operators on the meta device. A pass with values repeats each warning that concerns the user.
class NoWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

// Estimates multiplications and memory accesses of an operator.
double work_of(const std::string& name, const std::vector<at::Tensor>& arguments,
               const std::vector<at::Tensor>& results) {
  double made = 0, read = 0;
  for (const at::Tensor& result : results) made += static_cast<double>(result.numel());
  for (const at::Tensor& argument : arguments) read += static_cast<double>(argument.numel());
  const auto named = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (named("embedding")) return 2 * made;
  if (named("attention") && arguments.size() >= 2 && arguments[1].dim() >= 2)
    return made + read + 4 * made * static_cast<double>(arguments[1].size(-2));
  if (named("convolution") && arguments.size() >= 2 && arguments[1].dim() >= 1)
    return 2 * made * static_cast<double>(arguments[1].numel()) /
           static_cast<double>(std::max<std::int64_t>(arguments[1].size(0), 1));
  if ((named("mm") || named("linear")) && arguments.size() >= 2) {
    const at::Tensor& left = named("add") ? arguments[1] : arguments[0];
    if (left.dim() >= 1) return made + read + 2 * made * static_cast<double>(left.size(-1));
  }
  return made + read;
}

class ForwardLearner final : public OperatorTaker {
 public:
  // `of_sections`: by buffer; see BufferUses. `timer`: measures the operators; null: they have no seconds.
  // `cut`: the sections of the model, if it is cut already; errors name them. Null: not yet.
  ForwardLearner(const ModuleParameters& parameters, std::vector<bool> of_sections, OperatorTimer* timer,
                 const Sections* cut)
      : timer_(timer), cut_(cut), buffers_(parameters.buffers, std::move(of_sections)) {
    for (const ModelTensors::Buffer& buffer : parameters.buffers) plan_.graph.buffers.push_back(buffer.name);
    for (std::size_t param = 0; param < parameters.tensors.size(); ++param) {
      params_.emplace(parameters.tensors[param].storage().unsafeGetStorageImpl(), static_cast<int>(param));
      const ParamSpec& spec = parameters.specs[param];
      plan_.graph.params.push_back(spec.name);
      const bool has_gradient = parameters.tensors[param].requires_grad();
      plan_.graph.param_bytes.push_back(has_gradient ? spec.numel() * static_cast<std::int64_t>(size_of(spec.dtype))
                                                     : 0);
      param_types_.push_back(to_scalar_type(parameters.specs[param].dtype));
      trained_.push_back(parameters.tensors[param].requires_grad());
    }
  }

  void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) override {
    if (has_no_number(op)) {
      op.redispatchBoxed(below_parameter_key(keys), &stack);
      return;
    }
    const c10::impl::ExcludeDispatchKeyGuard outermost_only(kParameterKey);
    if (returns_no_tensor(op)) {
      run_query(op, keys, stack);
      return;
    }
    GraphOperator described{.name = op.schema().name()};
    const bool draws = draws_numbers(op, stack);
    if (draws && has_own_generator(op, stack))
      refuse_operator(op, "it draws from a generator of the program, and a pass runs several times",
                      "draw from the default generator, or before passes()");
    if (c10::GradMode::is_enabled()) {
      no_gradients_since_ = -1;
    } else if (no_gradients_since_ < 0) {
      no_gradients_since_ = static_cast<int>(plan_.operators.size());
    }
    std::vector<int> written;
    for_each_argument(op, stack, [&](const at::Tensor& tensor, bool is_written) {
      if (!tensor.defined()) return;
      if (const auto param = param_of(tensor)) {
        described.params.push_back(*param);
        if (is_written)
          refuse_operator(op, fmt::format("it writes the parameter {} within a pass", name_of(*param)),
                          "write parameters between steps");
      } else if (const auto value = absent_value(tensor)) {
        described.inputs.push_back(*value);
        if (is_made_by_function(tensor))
          keep_function_together(op.schema().name(), tensor, *value, static_cast<int>(plan_.operators.size()) + 1);
        if (is_written) written.push_back(*value);
      } else if (buffers_.has(tensor)) {
        buffers_.use(tensor, next_number(), described.buffers);
      } else if (const auto constant = constant_of(tensor)) {
        described.constants.push_back(*constant);
      }
    });
    described.everywhere = described.params.empty() && described.inputs.empty() && described.buffers.empty();
    PlannedOperator planned{.op = op, .sizes = argument_sizes(op, stack), .returns = {}, .draws = draws};
    if (has_statistics(op)) planned.updates = !updated_statistics(op, stack).empty();
    note_writes(op, stack, described);
    if (described.everywhere) {
      if (region_.is_open()) {
        region_.run(stack);
      } else {
        op.redispatchBoxed(below_parameter_key(keys), &stack);
      }
      keep_results(op, stack);
    } else {
      refuse_hidden_effects(op, stack, draws);
      run_on_meta(op, stack, written, described, planned);
    }
    plan_.operators.push_back(std::move(planned));
    plan_.graph.operators.push_back(std::move(described));
  }

  std::unique_ptr<RepeatedPart> begin_checkpoint() override {
    open_checkpoints_.push_back(static_cast<int>(plan_.operators.size()));
    return nullptr;
  }
  void end_checkpoint() override {
    const int first = open_checkpoints_.back(), end = static_cast<int>(plan_.operators.size());
    open_checkpoints_.pop_back();
    if (end > first) plan_.graph.kept_together.emplace_back(first, end);
  }

  std::vector<at::Tensor> run_together(const Function& function, const std::vector<at::Tensor>& inputs,
                                       const std::vector<at::Tensor>& like) override {
    return region_.take(function, inputs, like,
                        [&](const c10::OperatorHandle& op, torch::jit::Stack& stack) { run(op, {}, stack); });
  }

  ForwardPlan take(const at::Tensor& loss) {
    const auto value = absent_value(loss);
    const bool by_function = value && is_made_by_function(loss);
    if (by_function) keep_function_together("the loss", loss, *value, static_cast<int>(plan_.operators.size()));
    const bool trains = by_function || (value && plan_.values[static_cast<std::size_t>(*value)].requires_grad);
    if (!trains || loss.numel() != 1)
      throw ConfigError("passes", loss.defined() ? TensorLayout::of(loss).text() : "undefined",
                        "the function must return a loss of one number that depends on the model's parameters",
                        "return the loss of the micro-batch, and leave backward() to passes()");
    plan_.graph.loss = *value;
    return take();
  }
  ForwardPlan take() {
    for (const auto& [op, buffer] : kept_buffers_) {
      if (!buffers_.is_written(buffer)) continue;
      refuse_operator(op,
                      fmt::format("its backward pass needs the values of {}, which the next micro-batch writes before",
                                  buffers_.name_of(buffer)),
                      "use a copy: clone()");
    }
    plan_.section_buffers = buffers_.section_buffers();
    plan_.common_buffers = buffers_.common_buffers();
    return std::move(plan_);
  }
  const BufferUses& buffers() const { return buffers_; }

 private:
  std::optional<int> param_of(const at::Tensor& tensor) const {
    if (!tensor.has_storage()) return std::nullopt;
    const auto found = params_.find(tensor.storage().unsafeGetStorageImpl());
    return found == params_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<int> constant_of(const at::Tensor& tensor) const {
    if (!tensor.has_storage()) return std::nullopt;
    const auto found = constants_.find(tensor.storage().unsafeGetStorageImpl());
    return found == constants_.end() ? std::nullopt : std::optional(found->second);
  }
  const std::string& name_of(int param) const { return plan_.graph.params[static_cast<std::size_t>(param)]; }

  // Whether a custom autograd function made the tensor. This learner gives absent tensors that need a gradient the node
  // history_. A custom autograd function runs its operators without gradients, and gives its results another node.
  bool is_made_by_function(const at::Tensor& tensor) const {
    if (!tensor.requires_grad()) return false;
    const at::Tensor root = tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
    return root.grad_fn() != nullptr && root.grad_fn() != history_;  // null: requires_grad_() made a leaf of it
  }

  // Keeps the operators of a custom autograd function in one section, up to `end`. Its backward pass needs all of its
  // operators, and the operators that use its results.
  void keep_function_together(const std::string& user, const at::Tensor& tensor, int value, int end) {
    const int first = no_gradients_since_of_[static_cast<std::size_t>(value)];
    const at::Tensor root = tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
    if (first < 0)
      throw ConfigError(
          "passes", root.grad_fn()->name(),
          fmt::format("it gives a tensor another history than its operators, and {} uses the tensor", user),
          "compute with operators of libtorch, or put this part into zero::together()");
    plan_.graph.functions.emplace_back(first, end);
    for (int number = first; number < static_cast<int>(plan_.operators.size()); ++number) {
      const GraphOperator& inside = plan_.graph.operators[static_cast<std::size_t>(number)];
      for (const int param : inside.params)
        if (trained_.at(static_cast<std::size_t>(param))) plan_.params_of_functions.push_back(param);
      if (std::ranges::find(inside.outputs, value) != inside.outputs.end()) break;
    }
  }

  int next_number() const { return static_cast<int>(plan_.operators.size()); }

  // Runs an operator that returns no tensor. With a buffer of a section it runs on the meta device. Only that section
  // has the buffer's values, so an operator that needs them fails.
  void run_query(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) {
    if (compares_with_itself(op, stack) && absent_value(stack.back().toTensor())) {
      plan_.equal_to_itself.insert(next_number());
      return answer_true(stack);
    }
    std::vector<int> of_section;
    for_each_argument(op, stack, [&](const at::Tensor& tensor, bool) {
      if (buffers_.has(tensor)) buffers_.use(tensor, next_number() - 1, of_section);
    });
    if (!of_section.empty())
      replace_arguments(op, stack, [&](const at::Tensor& tensor) {
        return buffers_.has(tensor) ? meta_of(tensor, /*needs_gradient=*/false) : tensor;
      });
    refuse_values(op, [&] {
      if (of_section.empty()) {
        op.redispatchBoxed(below_parameter_key(keys), &stack);
      } else {
        op.callBoxed(&stack);
      }
    });
  }

  // A tensor that this pass made on every rank may be written only by operators that every rank runs. A buffer may also
  // be written by operators of one section. Other tensors that are older than the pass may not be written.
  void note_writes(const c10::OperatorHandle& op, const torch::jit::Stack& stack, GraphOperator& described) {
    bool writes_buffer = false;
    for (const at::Tensor& tensor : written_arguments(op, stack)) {
      if (const auto value = absent_value(tensor)) {
        described.outputs.push_back(*value);
      } else if (buffers_.has(tensor)) {
        buffers_.write(tensor, next_number(), described.everywhere, described.buffers);
        writes_buffer = true;
      } else if (!constant_of(tensor)) {
        refuse_operator(op,
                        "it writes a tensor that is older than the pass and no buffer of the model, and a pass runs "
                        "several times",
                        "register it as a buffer, or write it outside of passes()");
      } else if (!described.everywhere) {
        refuse_operator(op, "it writes values of one section into a tensor that every section has",
                        "use an operator that makes a new tensor, such as cat, stack or where");
      }
    }
    if (open_checkpoints_.empty() || (!writes_buffer && described.buffers.empty())) return;
    refuse_operator(op,
                    fmt::format("it uses {}, which the pass writes, inside an activation checkpoint: the second run "
                                "comes after other micro-batches have written it",
                                name_of_buffer(op, stack)),
                    "end the checkpoint before this module, or call the module's eval()");
  }

  std::string name_of_buffer(const c10::OperatorHandle& op, const torch::jit::Stack& stack) const {
    std::string name;
    for_each_argument(op, stack, [&](const at::Tensor& tensor, bool) {
      if (name.empty() && buffers_.has(tensor) && buffers_.is_written(tensor)) name = buffers_.name_of(tensor);
    });
    return name;
  }

  // The place of an operator without a number, for errors: the numbered operator and the parameter before it.
  std::string place() const {
    const std::vector<GraphOperator>& operators = plan_.graph.operators;
    if (operators.empty()) return "it is the first operator of the forward pass";
    std::string text = fmt::format("it comes after operator {} of the forward pass", operators.size() - 1);
    const auto last = std::ranges::find_if(operators.rbegin(), operators.rend(),
                                           [](const GraphOperator& op) { return !op.params.empty(); });
    if (last == operators.rend()) return text;
    const int param = last->params.back();
    text += fmt::format(", and after the use of {}", name_of(param));
    const int section = cut_ == nullptr ? kEverywhere : cut_->home_of_param[static_cast<std::size_t>(param)];
    return section == kEverywhere ? text : text + fmt::format(" in section {}", section);
  }

  void refuse_hidden_effects(const c10::OperatorHandle& op, const torch::jit::Stack& stack, bool draws) const {
    if (draws && !draws_by_sizes(op))
      refuse_operator(op,
                      fmt::format("how many random numbers it draws depends on values of a tensor that one section "
                                  "has; {}",
                                  place()),
                      "draw them before passes(), or use dropout, bernoulli_(), uniform_() or normal_()");
    if (has_dynamic_shape(op, stack))
      refuse_operator(op,
                      fmt::format("it needs values of a tensor that one section has: the shape of its result depends "
                                  "on them; {}",
                                  place()),
                      kNoValues);
  }

  // Runs an operator. It fails if its result, or the shape of its result, depends on values of absent tensors.
  template <typename Run>
  void refuse_values(const c10::OperatorHandle& op, Run run) const {
    try {
      run();
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      refuse_operator(op,
                      fmt::format("it needs values of a tensor that one section has ({}); {}",
                                  text.substr(0, text.find('\n')), place()),
                      kNoValues);
    }
  }

  void keep_results(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    for (std::size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
      const auto keep = [this](const at::Tensor& tensor) {
        if (!tensor.defined() || !tensor.has_storage() || buffers_.has(tensor)) return;
        const int number = static_cast<int>(constants_.size());
        if (!constants_.emplace(tensor.storage().unsafeGetStorageImpl(), number).second) return;
        constant_memories_.push_back(tensor.storage());
        plan_.graph.constants.push_back({.bytes = static_cast<std::int64_t>(tensor.storage().nbytes()),
                                         .made_by = static_cast<int>(plan_.operators.size())});
      };
      if (stack[i].isTensor()) keep(stack[i].toTensor());
      if (stack[i].isTensorList())
        for (const at::Tensor& tensor : stack[i].toTensorVector()) keep(tensor);
    }
  }

  // Returns a tensor of the meta device with the same layout. A parameter gets the type in which it will be held.
  at::Tensor meta_of(const at::Tensor& tensor, bool needs_gradient) const {
    if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
    const std::optional<int> param = param_of(tensor);
    const at::ScalarType type = param ? param_types_[static_cast<std::size_t>(*param)] : tensor.scalar_type();
    at::Tensor meta =
        at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta).dtype(type));
    return needs_gradient && tensor.requires_grad() ? meta.requires_grad_(true) : meta;
  }

  void run_kernel_on_meta(const c10::OperatorHandle& op, torch::jit::Stack& stack, bool in_place) const {
    refuse_values(op, [&] {
      const MetaKernels kernels;
      NoWarnings quiet;
      const c10::WarningUtils::WarningHandlerGuard no_warnings(&quiet);
      const c10::AutoGradMode gradients(c10::GradMode::is_enabled() && !in_place);
      op.callBoxed(&stack);
    });
  }

  // `stack`: ends with the arguments on the meta device.
  KeptByAutograd kept_on_meta(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                              const std::vector<at::Tensor>& arguments) const {
    torch::jit::Stack with_gradients(stack.end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size()),
                                     stack.end());
    replace_arguments(op, with_gradients, [&, at = std::size_t{0}](const at::Tensor& meta) mutable {
      const at::Tensor& argument = arguments[at++];
      const bool lacks_gradient = meta.defined() && meta.is_meta() && argument.requires_grad() && !meta.requires_grad();
      return lacks_gradient ? at::empty_like(meta).requires_grad_(true) : meta;
    });
    KeptByAutograd kept;
    refuse_values(op, [&] {
      NoWarnings quiet;
      const c10::WarningUtils::WarningHandlerGuard no_warnings(&quiet);
      kept = kept_by_autograd(op, with_gradients);
    });
    return kept;
  }

  // Notes the tensors that autograd keeps, without two kinds. A parameter is no activation, and a tensor that is older
  // than the pass exists anyway.
  void describe_kept(const KeptByAutograd& kept, const std::vector<at::Tensor>& arguments,
                     const PlannedOperator& planned, GraphOperator& described) {
    for (const std::size_t number : kept.arguments) {
      const at::Tensor& argument = arguments[number];
      if (!argument.defined() || param_of(argument)) continue;
      if (const auto value = absent_value(argument)) described.saved.push_back(*value);
      if (const auto constant = constant_of(argument)) described.saved_constants.push_back(*constant);
      // In training a norm's backward pass does not read the statistics that it keeps.
      if (buffers_.has(argument) && !planned.updates.value_or(false)) kept_buffers_.emplace_back(planned.op, argument);
    }
    std::vector<int> results;  // values; an argument that was written is also in `arguments`
    for (const PlannedReturn& entry : planned.returns)
      for (const PlannedTensor& tensor : entry.tensors) {
        const bool written = tensor.same_as >= 0;
        results.push_back(written ? absent_value(arguments[static_cast<std::size_t>(tensor.same_as)]).value_or(-1)
                                  : tensor.value);
      }
    for (const std::size_t number : kept.results)
      if (results[number] >= 0) described.saved.push_back(results[number]);
    described.own_bytes = kept.own_bytes;
  }

  // Returns the product that a pass of weights can compute, as SectionPass::begin_product() does: an input that needs a
  // gradient, times a parameter.
  std::optional<WaitingProduct> waiting_product(const c10::OperatorHandle& op, const torch::jit::Stack& stack) const {
    const auto numbers = product_arguments(op, stack);
    if (!numbers || !c10::GradMode::is_enabled()) return std::nullopt;
    const std::size_t first = stack.size() - op.schema().arguments().size();
    const at::Tensor input = stack[first + numbers->input].toTensor();
    const at::Tensor matrix = stack[first + numbers->matrix].toTensor();
    const auto value = absent_value(input);
    const auto param = param_of(matrix);
    const bool have_gradients = input.requires_grad() && matrix.requires_grad();
    if (!value || param_of(input) || !param || !have_gradients) return std::nullopt;
    return WaitingProduct{.input = *value, .param = *param};
  }

  void run_on_meta(const c10::OperatorHandle& op, torch::jit::Stack& stack, const std::vector<int>& written,
                   GraphOperator& described, PlannedOperator& planned) {
    std::vector<at::Tensor> arguments, metas;
    bool any_gradient = false;
    for_each_argument(op, stack, [&](const at::Tensor& tensor, bool) {
      arguments.push_back(tensor);
      any_gradient = any_gradient || (tensor.defined() && tensor.requires_grad());
    });
    const bool in_place = !written.empty();
    described.product = waiting_product(op, stack);
    replace_arguments(op, stack, [&](const at::Tensor& tensor) {
      metas.push_back(meta_of(tensor, /*needs_gradient=*/!in_place));
      return metas.back();
    });
    if (timer_ != nullptr) {
      std::vector<bool> of_params;
      for (const at::Tensor& tensor : arguments) of_params.push_back(tensor.defined() && param_of(tensor).has_value());
      described.seconds = timer_->time(op, stack, of_params);
    }
    const auto& formals = op.schema().arguments();
    for (std::size_t i = 0; i < formals.size(); ++i) {
      c10::IValue& value = stack[stack.size() - formals.size() + i];
      if (formals[i].name() == "device" && value.isDevice()) value = c10::Device(c10::DeviceType::Meta);
    }
    KeptByAutograd kept;
    if (region_.is_open()) {
      Region::run_on_meta(stack);
    } else {
      kept = kept_on_meta(op, stack, arguments);
      run_kernel_on_meta(op, stack, in_place);
    }
    const bool writes_gradient = in_place && any_gradient && c10::GradMode::is_enabled();
    for (const int value : written) {
      if (!writes_gradient) continue;
      plan_.values[static_cast<std::size_t>(value)].requires_grad = true;
      plan_.graph.values[static_cast<std::size_t>(value)].differentiable = true;
      for (const at::Tensor& argument : arguments)
        if (absent_value(argument) == value && !argument.requires_grad() && !argument.is_view()) give_history(argument);
    }
    std::vector<at::Tensor> results;
    const std::size_t count = op.schema().returns().size();
    for (std::size_t i = stack.size() - count; i < stack.size(); ++i)
      planned.returns.push_back(planned_return(op, stack[i], arguments, metas, described, results));
    if (region_.is_open() && any_gradient && c10::GradMode::is_enabled()) {
      kept.arguments.resize(arguments.size());
      std::iota(kept.arguments.begin(), kept.arguments.end(), std::size_t{0});
      described.saved = described.outputs;
    }
    describe_kept(kept, arguments, planned, described);
    std::erase_if(arguments, [](const at::Tensor& tensor) { return !tensor.defined(); });
    described.work = work_of(described.name, arguments, results);
  }

  // Returns the value whose memory a result shares; -1: none. Some operators return a view although their schema does
  // not say it, such as _unsafe_view.
  static int value_with_memory(const at::Tensor& result, const std::vector<at::Tensor>& arguments,
                               const std::vector<at::Tensor>& metas) {
    for (std::size_t i = 0; i < metas.size(); ++i)
      if (metas[i].defined() && metas[i].has_storage() && result.is_alias_of(metas[i]))
        return absent_value(arguments[i]).value_or(-1);
    return -1;
  }

  // Describes a result, and replaces its tensors by absent tensors.
  PlannedReturn planned_return(const c10::OperatorHandle& op, c10::IValue& result,
                               const std::vector<at::Tensor>& arguments, const std::vector<at::Tensor>& metas,
                               GraphOperator& described, std::vector<at::Tensor>& results) {
    PlannedReturn planned;
    const auto plan_one = [&](const at::Tensor& meta) {
      PlannedTensor tensor;
      if (!meta.defined()) {
        planned.tensors.push_back(tensor);
        return at::Tensor();
      }
      results.push_back(meta);
      const auto same = std::ranges::find_if(metas, [&](const at::Tensor& other) { return other.is_same(meta); });
      if (same != metas.end()) {
        tensor.same_as = static_cast<int>(same - metas.begin());
        planned.tensors.push_back(tensor);
        return arguments[static_cast<std::size_t>(tensor.same_as)];
      }
      tensor.layout = TensorLayout::of(meta);
      tensor.value = static_cast<int>(plan_.values.size());
      no_gradients_since_of_.push_back(no_gradients_since_);
      plan_.values.push_back(tensor.layout);
      plan_.graph.values.push_back({.bytes = meta.numel() * static_cast<std::int64_t>(meta.element_size()),
                                    .differentiable = tensor.layout.requires_grad,
                                    .memory_of = value_with_memory(meta, arguments, metas)});
      described.outputs.push_back(tensor.value);
      at::Tensor absent = absent_tensor(tensor.value, tensor.layout, op.schema().name());
      // A leaf that needs a gradient could not be written in place, so the history is a node without inputs.
      if (tensor.layout.requires_grad) give_history(absent);
      planned.tensors.push_back(std::move(tensor));
      return absent;
    };
    if (result.isTensor()) {
      result = plan_one(result.toTensor());
    } else if (result.isTensorList()) {
      planned.is_list = true;
      c10::List<at::Tensor> list;
      for (const at::Tensor& meta : result.toTensorVector()) list.push_back(plan_one(meta));
      result = std::move(list);
    }
    return planned;
  }

  // The node of absent tensors in autograd's graph. It refuses a backward pass that the user's function begins.
  struct NoHistory final : torch::autograd::Node {
    torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
      with_host_errors([] {
        throw ConfigError("passes", "backward", "a backward pass was begun within the function",
                          "return the loss, and leave backward() to passes()");
      });
      return {};
    }
  };

  void give_history(const at::Tensor& absent) {
    torch::autograd::impl::set_gradient_edge(absent, {history_, history_->add_input_metadata(absent)});
  }

  ForwardPlan plan_;
  OperatorTimer* const timer_;
  const Sections* const cut_;
  std::unordered_map<const c10::StorageImpl*, int> params_;
  std::vector<at::ScalarType> param_types_;
  std::unordered_map<const c10::StorageImpl*, int> constants_;
  BufferUses buffers_;
  std::vector<std::pair<c10::OperatorHandle, at::Tensor>> kept_buffers_;  // for backward passes, with their operators
  std::vector<bool> trained_;                                             // by parameter
  Region region_;
  std::vector<int> open_checkpoints_;  // first operators of the activation checkpoints that have begun and not ended
  int no_gradients_since_ = -1;        // first of the latest operators without gradient mode; -1: gradient mode is on
  std::vector<int> no_gradients_since_of_;       // by value: no_gradients_since_ when it was made
  std::vector<c10::Storage> constant_memories_;  // held, so libtorch reuses no address while learning
  const std::shared_ptr<torch::autograd::Node> history_{new NoHistory, torch::autograd::deleteNode};
};

// Runs the pass. Runs it again if an operator used a buffer of a section as if every rank had its values.
ForwardPlan learn(const ModuleParameters& parameters, OperatorTimer* timer, const Sections* cut, bool with_gradients,
                  const std::function<void()>& pass, const std::function<ForwardPlan(ForwardLearner&)>& take) {
  std::vector<bool> of_sections(parameters.buffers.size(), false);
  for (;;) {
    const GeneratorScope unchanged(generator_state());
    ForwardLearner learner(parameters, of_sections, timer, cut);
    {
      const TakeOperators scope(learner);
      const c10::AutoGradMode recording(with_gradients);
      pass();
    }
    if (!learner.buffers().found_late()) return take(learner);
    of_sections = learner.buffers().of_sections();
  }
}

}  // namespace

ForwardPlan learn_forward(const ModuleParameters& parameters, const std::function<at::Tensor()>& loss,
                          OperatorTimer* timer) {
  at::Tensor result;
  return learn(
      parameters, timer, nullptr, /*with_gradients=*/true, [&] { result = loss(); },
      [&](ForwardLearner& learner) { return learner.take(result); });
}

ForwardPlan learn_evaluation(const ModuleParameters& parameters, const Sections& cut, const ForwardResults& function) {
  return learn(
      parameters, nullptr, &cut, /*with_gradients=*/false, [&] { function(); },
      [](ForwardLearner& learner) { return learner.take(); });
}

}  // namespace zero
