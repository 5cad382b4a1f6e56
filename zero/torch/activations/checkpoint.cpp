#include "zero/torch/activations/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "zero/base/error/error.h"
#include "zero/base/process/host_language.h"
#include "zero/torch/activations/saved_input.h"
#include "zero/torch/deferred/surroundings.h"
#include "zero/torch/seam/dispatch_key.h"
#include "zero/torch/seam/operator_taker.h"

namespace zero {
namespace {

using torch::autograd::Node;
using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

[[noreturn]] void refuse(std::string_view what, std::string_view reason, std::string_view remedy) {
  throw ConfigError("checkpoint", what, reason, remedy);
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

std::string shape_of(const at::Tensor& tensor) {
  return fmt::format("[{}] {}", fmt::join(tensor.sizes(), ", "), c10::toString(tensor.scalar_type()));
}

// The data that the second run needs.
struct Run {
  Function fn;
  std::vector<SavedInput> inputs;
  // Generator states of the CPU and of `place`, which may be a GPU. Undefined: fn drew no numbers there.
  at::Tensor generator_state, device_generator_state;
  c10::Device place = kOnCpu;
  Autocast autocast;
  std::unique_ptr<RepeatedPart> part;  // in a pipeline
  std::size_t num_outputs = 0;
  std::vector<std::size_t> differentiable;  // indices of the outputs that can have a gradient
};

// Replaces fn's own operators in the graph.
class CheckpointNode final : public Node {
 public:
  CheckpointNode(Run run, torch::autograd::edge_list&& edges) : Node(std::move(edges)), run_(std::move(run)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return with_host_errors([&] { return gradients_of_inputs(std::move(gradients)); });
  }

  // Called after a backward pass that does not retain the graph.
  void release_variables() override {
    run_ = {};
    released_ = true;
  }

 private:
  torch::autograd::variable_list gradients_of_inputs(torch::autograd::variable_list gradients) {
    check_pass();
    Tensors leaves;
    for (const SavedInput& input : run_.inputs) leaves.push_back(input.leaf());
    torch::autograd::variable_list roots, root_gradients;
    {
      const Tensors outputs = run_again(leaves);
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (!gradients[i].defined()) continue;  // this output was not used
        roots.push_back(checked_root(outputs, run_.differentiable[i], gradients[i]));
        root_gradients.push_back(std::move(gradients[i]));
      }
    }
    // Runs a backward pass inside this backward pass. Tensors that fn used get their gradients there; the inputs'
    // gradients are returned.
    if (!roots.empty()) torch::autograd::backward(roots, root_gradients);
    torch::autograd::variable_list results;
    for (const at::Tensor& leaf : leaves) results.push_back(leaf.defined() ? leaf.grad() : at::Tensor());
    return results;
  }

  void check_pass() const {
    if (c10::GradMode::is_enabled())
      refuse("create_graph", "backward() runs fn again, and this run does not record gradients of gradients",
             "call backward() without create_graph, or this part of the model without checkpoint()");
    if (!torch::autograd::Engine::get_default_engine().is_checkpoint_valid())
      refuse("torch::autograd::grad",
             "backward() runs fn again, and this run computes all gradients, not only those of some tensors",
             "call backward() without inputs and read .grad()");
    if (released_)
      refuse("backward", "the first backward pass freed the graph that this second pass needs",
             "call the first backward() with retain_graph");
  }

  Tensors run_again(const Tensors& leaves) const {
    const c10::AutoGradMode recording(true);
    const GeneratorScope random(run_.generator_state);
    const GeneratorScope random_there(run_.device_generator_state, run_.place);
    const AutocastScope casts(run_.autocast);
    Tensors outputs = run_.part == nullptr ? run_.fn(leaves) : run_.part->run_again([&] { return run_.fn(leaves); });
    if (outputs.size() != run_.num_outputs)
      refuse(fmt::format("{} outputs", outputs.size()), fmt::format("fn gave {} in its first run", run_.num_outputs),
             "fn must compute the same in both runs");
    return outputs;
  }

  // Checks that a gradient has the shape and type of the output of the first run.
  static const at::Tensor& checked_root(const Tensors& outputs, std::size_t index, const at::Tensor& gradient) {
    const at::Tensor& output = outputs[index];
    const bool alike = output.defined() && output.sizes() == gradient.sizes() &&
                       output.scalar_type() == gradient.scalar_type() && output.requires_grad();
    if (!alike)
      refuse(fmt::format("output {}", index),
             fmt::format("{} in the first run of fn, {} in the second", shape_of(gradient),
                         !output.defined()         ? "undefined"
                         : !output.requires_grad() ? "without a gradient"
                                                   : shape_of(output)),
             "fn must compute the same in both runs");
    return output;
  }

  Run run_;
  bool released_ = false;
};

// Returns the GPU of the inputs, otherwise the CPU. The generator of this device is kept beside the CPU's.
c10::Device place_of(const Tensors& inputs) {
  c10::Device place = kOnCpu;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || inputs[i].is_cpu() || inputs[i].is_meta()) continue;
    const c10::Device found = inputs[i].device();
    if (!found.is_cuda() || (place.is_cuda() && found != place))
      refuse(fmt::format("input {}", i),
             place.is_cuda()
                 ? fmt::format("is on {}, and another input is on {}", found.str(), place.str())
                 : fmt::format("is on {}, and checkpoint() does not restore the generator of that device", found.str()),
             "pass only tensors on the CPU and on one GPU");
    place = found;
  }
  return place;
}

void refuse_written(const Tensors& inputs, const std::vector<std::int64_t>& versions) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i]._version() != versions[i])
      refuse(fmt::format("input {}", i), "fn wrote to it in place, so the second run of fn would read changed values",
             "write to a clone() in fn");
  }
}

// Refuses tensors that fn captured. Every operator of the first run has a sequence number of at least `first`; a
// smaller number belongs to a captured tensor. Its part of the graph would be run, and freed, inside this checkpoint's
// backward pass.
void refuse_captured(const Tensors& outputs, std::uint64_t first) {
  constexpr std::uint64_t kAccumulates = std::numeric_limits<std::uint64_t>::max();  // a parameter or another leaf
  std::vector<const Node*> open;
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.grad_fn() != nullptr) open.push_back(output.grad_fn().get());
  }
  std::unordered_set<const Node*> seen(open.begin(), open.end());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (node->sequence_nr() < first)
      refuse(node->name(), "fn uses a tensor that needs a gradient, and this operator made it outside fn",
             "pass it through `inputs`");
    if (node->sequence_nr() == kAccumulates) continue;
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (edge.is_valid() && seen.insert(edge.function.get()).second) open.push_back(edge.function.get());
    }
  }
}

// Records the first run like any other, and drops the record when fn is done. Operators that read the gradient mode
// then compute the same bits in both runs, and parameters see a forward pass of training. At its peak it holds no more
// memory than the second run.
Tensors run_checkpointed(const Function& fn, Tensors inputs, const CheckpointOptions& options) {
  if (!c10::GradMode::is_enabled()) return fn(inputs);
  const c10::Device place = place_of(inputs);
  Run run{.fn = fn, .place = place, .autocast = Autocast::now(place.type())};
  if (OperatorTaker* const taker = OperatorTaker::current()) {
    run.part = taker->begin_checkpoint();
    if (run.part == nullptr) {
      Tensors outputs = fn(inputs);
      taker->end_checkpoint();
      return outputs;
    }
    run.part->receive(inputs);
  }
  Tensors leaves;
  std::vector<std::int64_t> versions;
  for (const at::Tensor& input : inputs) {
    const c10::impl::ExcludeDispatchKeyGuard not_taken(kParameterKey);  // copies to another place
    run.inputs.emplace_back(input, options.keep ? options.keep() : nullptr);
    leaves.push_back(leaf_of(input, input.defined() && input.requires_grad()));
    versions.push_back(input.defined() ? input._version() : 0);
  }
  run.generator_state = generator_state();
  if (place.is_cuda()) run.device_generator_state = generator_state(place);
  const std::uint64_t first = at::sequence_number::peek();
  Tensors outputs;
  {
    const AutocastScope casts(run.autocast);
    outputs = fn(leaves);
  }
  const std::size_t num_returned = outputs.size();
  RepeatedPart* const part = run.part.get();
  if (part != nullptr) part->end_first_run(outputs);
  refuse_written(inputs, versions);
  if (same_bytes(run.generator_state, generator_state())) run.generator_state.reset();
  if (place.is_cuda() && same_bytes(run.device_generator_state, generator_state(place)))
    run.device_generator_state.reset();
  run.num_outputs = outputs.size();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].defined() && outputs[i].requires_grad()) run.differentiable.push_back(i);
  }
  if (run.differentiable.empty()) {
    outputs.resize(num_returned);
    return outputs;
  }
  refuse_captured(outputs, first);

  const std::vector<std::size_t> differentiable = run.differentiable;
  const std::shared_ptr<Node> node(new CheckpointNode(std::move(run), torch::autograd::collect_next_edges(inputs)),
                                   torch::autograd::deleteNode);
  for (std::size_t i : differentiable) {
    outputs[i] = outputs[i].detach();
    torch::autograd::set_history(outputs[i], node);
  }
  if (part != nullptr) part->set_outputs(outputs);
  outputs.resize(num_returned);
  return outputs;
}

}  // namespace

at::Tensor checkpoint(const std::function<at::Tensor(const Tensors&)>& fn, Tensors inputs,
                      const CheckpointOptions& options) {
  const auto as_list = [fn](const Tensors& in) { return Tensors{fn(in)}; };
  return std::move(run_checkpointed(as_list, std::move(inputs), options).front());
}

Tensors checkpoint(const std::function<Tensors(const Tensors&)>& fn, Tensors inputs, const CheckpointOptions& options) {
  return run_checkpointed(fn, std::move(inputs), options);
}

}  // namespace zero
