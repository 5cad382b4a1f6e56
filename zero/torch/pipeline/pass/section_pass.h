// SectionPass: the forward and the backward pass of a section for one micro-batch. The forward pass runs the section's
// operators, and walks past all others.
//
//   SectionPass pass(forward, crossings, section, micro, shared);
//   pass.forward([&] { return loss_of(model->forward(x), y); });     // the whole function
//   pass.backward(loss, leaves, leaf_gradients);                     // gradients of this section
//
// An operator of another section is walked past: its results are absent tensors with the planned layouts. If an
// operator of this section uses such a result, the first one receives it. In autograd's graph a received tensor has a
// node without inputs, which keeps its gradient for the section before. A result that crosses is sent right after the
// last operator that writes it.
//
// Parameters that the lookup section also uses belong to that section's engine. The section with their other uses
// replaces them by aliases, and gives the aliases' gradients to the lookup section. There autograd adds the part of the
// lookups to them, as it does without a pipeline. A view of such a parameter is replaced by a view of its alias. That
// view has the sequence number of the first one, so autograd's order of sums does not change. A parameter that is used
// without a gradient, such as a detached one, keeps its own tensor.
//
// A section that walks past an operator with random numbers draws as many numbers. So every section's generator has the
// states that it has without a pipeline. The operators of an activation checkpoint belong to one section, which runs
// them again in the backward pass (section_part.cpp).
//
// If the order of passes delays gradients of weights (`split`), aliases replace all parameters of the section. Then
// backward() computes the gradients of inputs, and of parameters outside of postponed products, such as biases.
// take_gradients() computes the postponed products.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/function.h>

#include "zero/torch/pipeline/forward/forward_plan.h"
#include "zero/torch/pipeline/forward/region.h"
#include "zero/torch/pipeline/forward/weight_product.h"
#include "zero/torch/pipeline/pass/crossings.h"
#include "zero/torch/seam/operator_taker.h"
#include "zero/torch/seam/parameter_storage.h"

namespace zero {

// Gradients of shared parameters that wait for the lookup section. Keys: micro-batch, and parameter of its engine.
using SharedGradients = std::map<std::pair<int, int>, at::Tensor>;

class SectionPass final : public OperatorTaker {
 public:
  // `shared`: the owner of the lookup section's parameters, if this section is another one that uses them; else null.
  // `split`: the owner of this section's parameters, if the order delays their gradients; else null.
  SectionPass(const ForwardPlan& plan, Crossings& crossings, int section, int micro, const ParameterOwner* shared,
              const ParameterOwner* split = nullptr);
  ~SectionPass() override;
  SectionPass(const SectionPass&) = delete;
  SectionPass& operator=(const SectionPass&) = delete;

  // Throws ConfigError under "passes" if another operator than planned runs; the text has both.
  void forward(const std::function<at::Tensor()>& function);
  // Returns the loss; undefined if another section has it.
  const at::Tensor& loss() const { return loss_; }
  // Runs a forward pass without gradients instead of forward(). Returns the function's results: those of other sections
  // are absent tensors.
  std::vector<at::Tensor> evaluate(const ForwardResults& function);

  // Runs the backward pass. `loss`: the scaled loss; undefined in sections that do not compute it. `leaves`: parameters
  // of this section (leaves of autograd's graph) that another section also uses. `leaf_gradients`: their gradients from
  // that section, to which autograd adds this section's part.
  void backward(const at::Tensor& loss, std::vector<at::Tensor> leaves, std::vector<at::Tensor> leaf_gradients);
  // Moves the gradients of shared parameters out.
  void take_shared(SharedGradients& gradients);
  // With `split`, after backward(). Returns the gradients of the section's own parameters, by parameter.
  std::map<int, at::Tensor> take_gradients();

  void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) override;
  std::unique_ptr<RepeatedPart> begin_checkpoint() override;
  std::vector<at::Tensor> run_together(const Function& function, const std::vector<at::Tensor>& inputs,
                                       const std::vector<at::Tensor>& like) override;

 private:
  // A tensor of another section, or the alias of a parameter; and its gradient from this section's backward pass.
  struct Received {
    at::Tensor tensor;
    at::Tensor gradient;
    // Views of an alias: by the node of the parameter's view, and its output of this node.
    std::map<std::pair<std::shared_ptr<torch::autograd::Node>, std::int64_t>, at::Tensor> views{};
  };
  class GradientKeeper;
  class ViewOfAlias;
  class Part;  // an activation checkpoint

  void require_all_ran() const;
  const PlannedOperator& next(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  void compute(const PlannedOperator& planned, int number, c10::DispatchKeySet keys, torch::jit::Stack& stack);
  // `number`: of the operator.
  void walk_past(const PlannedOperator& planned, int number, c10::DispatchKeySet keys, torch::jit::Stack& stack);
  at::Tensor absent_result(const PlannedOperator& planned, int number, const PlannedTensor& tensor);
  at::Tensor ready(const at::Tensor& argument);
  const ParameterHandle* own_parameter(const at::Tensor& argument) const;
  // Returns the product of this operator, if its gradient of the matrix can wait.
  std::shared_ptr<WeightProduct> begin_product(const PlannedOperator& planned, int number, torch::jit::Stack& stack);
  at::Tensor alias_of(const at::Tensor& parameter, const ParameterHandle& handle);
  static at::Tensor view_of_alias(const at::Tensor& whole, const at::Tensor& parameter);
  void receive(const at::Tensor& argument, int value);
  void note_results(const PlannedOperator& planned, int number, const torch::jit::Stack& stack);
  // Whether another section makes the value, and this one uses it.
  bool comes_here(int value) const;
  // The backward pass adds the tensor's gradient to `gradient`, and ends there. `is_parameter`: it does so as early as
  // libtorch's AccumulateGrad, because an activation checkpoint may capture the tensor.
  static void set_keeper(const at::Tensor& tensor, at::Tensor& gradient, bool is_parameter = false);

  const ForwardPlan& plan_;
  Crossings& crossings_;
  const int section_;
  const int micro_;
  const ParameterOwner* const shared_;
  const ParameterOwner* const split_;
  std::vector<int> uses_;  // by parameter of the plan: number of operators of this section that use it
  int number_ = 0;         // of the next operator
  Region region_;
  std::map<int, std::unique_ptr<Received>> received_;  // by value
  std::map<int, at::Tensor> made_;                     // by value: results of this section that cross
  std::map<int, at::Tensor>* made_now_ = &made_;       // the map for new results: a second run has its own
  int first_runs_ = 0;                                 // number of activation checkpoints now in their first run
  // By owner and number of the parameter.
  std::map<std::pair<const ParameterOwner*, int>, std::unique_ptr<Received>> aliases_;
  std::vector<std::shared_ptr<WeightProduct>> products_;  // in the order of the forward pass
  at::Tensor loss_;
  at::Tensor not_needed_;  // receives the gradients of tensors that this section does not use
};

}  // namespace zero
