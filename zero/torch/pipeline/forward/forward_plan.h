// ForwardPlan: the operators of one forward pass, the section of each, and the layouts of their results.
//
//   ForwardPlan plan = learn_forward(parameters, [&] { return loss_of(model->forward(x), y); });  // computes no loss
//   plan.sections = cut_sections(plan.graph, 2);
//
// learn_forward() runs the function. Each operator on a parameter, or on a result of such an operator, runs on the meta
// device. Its results are absent tensors, called values, and numbered. All other operators (positions, masks, casts of
// inputs) are computed, because every rank computes them in every pass. Their results are called constants.
//
// Operators are numbered in the order in which they run. Views and composite operators have no number: libtorch runs
// them, and the operators inside a composite operator have numbers. Local.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "zero/plan/pipeline/sections.h"
#include "zero/torch/module/module_parameters.h"
#include "zero/torch/pipeline/forward/absent_tensor.h"

namespace zero {

class OperatorTimer;

struct PlannedTensor {
  TensorLayout layout{};
  int value = -1;    // -1: no new tensor
  int same_as = -1;  // index of the tensor argument that the operator wrote in place and returns; -1: none
};

// One entry of an operator's results.
struct PlannedReturn {
  bool is_list = false;
  std::vector<PlannedTensor> tensors;
};

struct PlannedOperator {
  c10::OperatorHandle op;
  std::vector<std::int64_t> sizes;     // of the tensor arguments, each after its number of dimensions
  std::vector<PlannedReturn> returns;  // empty if every rank runs the operator
  bool draws = false;                  // it draws random numbers; a rank that walks past it draws as many
  std::optional<bool> updates{};       // whether it updates running statistics; nullopt: it has none

  std::string text() const;  // "aten::addmm [64] [32, 16] [16, 64]"
};

struct ForwardPlan {
  std::vector<PlannedOperator> operators;
  std::vector<TensorLayout> values;      // by value
  std::vector<int> params_of_functions;  // trained parameters that custom autograd functions use; may repeat
  std::vector<int> section_buffers;      // buffers that operators of one section write
  std::vector<int> common_buffers;       // buffers that every rank writes, such as a count of batches
  // Operators before which aten::equal compared a value with itself, as attention of libtorch does. The comparison is
  // true in every section, also of NaN.
  std::set<int> equal_to_itself;
  ForwardGraph graph;
  Sections sections;

  std::vector<std::string> lines() const;  // one line an operator, for comparing ranks
  bool draws() const;                      // whether some operator draws random numbers
  // The section that makes a value. kEverywhere: every rank makes it.
  int section_of_value(int value) const;
  // The section that writes a buffer of `section_buffers`.
  int section_of_buffer(int buffer) const;
};

// True for operators that have no number: views, and composites of other operators. An instance norm is a composite
// with a number. It copies its statistics, updates the copy and copies it back, and one section must do all three.
bool has_no_number(const c10::OperatorHandle& op);
// True for operators that return no tensor, such as aten::equal. They have no number, and every rank runs them. Every
// rank knows the shapes of all tensors. An operator that needs values of an absent tensor fails while learning.
bool returns_no_tensor(const c10::OperatorHandle& op);

// Calls visit(tensor, written) for each tensor argument of the operator in order, also if it is undefined. The stack
// ends with the arguments. `written`: by its schema the operator writes the argument.
void for_each_argument(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                       const std::function<void(const at::Tensor& tensor, bool written)>& visit);
// Replaces each of these tensors by replace(tensor).
void replace_arguments(const c10::OperatorHandle& op, torch::jit::Stack& stack,
                       const std::function<at::Tensor(const at::Tensor& tensor)>& replace);
// Returns PlannedOperator::sizes of a call.
std::vector<std::int64_t> argument_sizes(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
std::string call_text(const c10::OperatorHandle& op, const std::vector<std::int64_t>& sizes);

// `sections` of the result is empty. Throws ConfigError under "passes" with the operator's name, if it
//   - reads values of a tensor that only one section has (item(), nonzero(), a boolean mask); the text names the
//     parameter that was used last before it
//   - draws from a generator that the program passes, or draws a count of numbers that depends on values of such a
//     tensor (multinomial)
//   - writes a parameter, or a tensor that is older than the pass and no buffer of the model
//   - uses a buffer that the pass writes, inside an activation checkpoint or for the backward pass
//   - reads values of a buffer that one section writes
//
// It also throws if the function does not return one number that depends on the parameters. The default generator and
// the buffers keep their values. If an operator uses a buffer before an operator of a section writes it, the function
// runs again. `timer`: measures each operator that has a section; null: the graph has no seconds.
ForwardPlan learn_forward(const ModuleParameters& parameters, const std::function<at::Tensor()>& loss,
                          OperatorTimer* timer = nullptr);

// The same for a forward pass without gradients, such as an evaluation. The function may return any tensors. `cut`: the
// sections of the training pass, for the text of errors.
using ForwardResults = std::function<std::vector<at::Tensor>()>;
ForwardPlan learn_evaluation(const ModuleParameters& parameters, const Sections& cut, const ForwardResults& function);

}  // namespace zero
