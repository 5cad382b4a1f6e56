// ForwardPlan: the operators of one forward pass, the section of each, and the layouts of their results.
//
//   ForwardPlan plan = learn_forward(parameters, [&] { return loss_of(model->forward(x), y); });   // computes nothing
//   plan.sections = cut_sections(plan.graph, 2);
//
// learn_forward() runs the function once. Each operator on a parameter, or on a result of such an operator, runs on the
// meta device, and its results are absent tensors. Operators without such arguments (positions, masks, casts of inputs)
// are computed, because every rank computes them in every pass. Views and composite operators have no number: libtorch
// runs them, and the operators inside them have numbers. Local.
#pragma once

#include <functional>
#include <optional>
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
  int value = -1;    // -1: undefined
  int same_as = -1;  // number of the tensor argument that the operator returns, after it wrote it in place
};

// One entry of an operator's results.
struct PlannedReturn {
  bool is_list = false;
  std::vector<PlannedTensor> tensors;
};

struct PlannedOperator {
  c10::OperatorHandle op;
  std::vector<std::int64_t> sizes;     // of the tensor arguments, each with its number of dimensions before it
  std::vector<PlannedReturn> returns;  // empty if every rank computes it
  bool draws = false;                  // random numbers; a rank that walks past it draws as many
  std::optional<bool> updates{};       // running statistics; absent: it has none

  std::string text() const;  // "aten::addmm [64] [32, 16] [16, 64]"
};

struct ForwardPlan {
  std::vector<PlannedOperator> operators;
  std::vector<TensorLayout> values;      // by value
  std::vector<int> params_of_functions;  // trained parameters that custom autograd functions use
  std::vector<int> section_buffers;      // buffers that operators of one section write
  std::vector<int> common_buffers;       // buffers that every rank writes, such as a count of batches
  ForwardGraph graph;
  Sections sections;

  std::vector<std::string> lines() const;  // one line an operator, for comparing ranks
  bool draws() const;                      // some operator draws random numbers
  // The section that makes a value. kEverywhere: every rank does.
  int section_of_value(int value) const;
  // The section that writes a buffer of `section_buffers`.
  int section_of_buffer(int buffer) const;
};

// True for operators that have no number: views, and composites of other operators. An instance norm has one: its
// statistics are copied, updated and copied back, in one section.
bool has_no_number(const c10::OperatorHandle& op);
// True for operators that answer a question about tensors. They have no number, and every rank runs them: shapes are
// known everywhere, and a question about values fails while learning.
bool returns_no_tensor(const c10::OperatorHandle& op);

// Calls visit(tensor) for each tensor in the last `count` entries of the stack, also undefined ones, in their order.
void for_each_argument(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                       const std::function<void(const at::Tensor& tensor, bool written)>& visit);
// Replaces them.
void replace_arguments(const c10::OperatorHandle& op, torch::jit::Stack& stack,
                       const std::function<at::Tensor(const at::Tensor& tensor)>& replace);
std::vector<std::int64_t> argument_sizes(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
std::string call_text(const c10::OperatorHandle& op, const std::vector<std::int64_t>& sizes);

// `sections` of the result is empty. Throws ConfigError under "passes" with the operator's name, if it
//   - reads values of a tensor that another section has (item(), nonzero(), a boolean mask); the text has the last
//     parameter that was used before it
//   - draws from a generator that the program passes, or numbers whose count depends on absent values (multinomial)
//   - writes a parameter, or another tensor that is older than the pass and no buffer of the model
//   - uses a buffer that the pass writes, inside an activation checkpoint or for the backward pass
//   - asks for values of a buffer that one section writes
// and if the function does not return one number that depends on the parameters. The default generator is left as it
// was, and so are buffers. A buffer that is used before an operator of a section writes it makes the function run once
// more. `timer`: measures each operator that has a section; null: the graph has no seconds.
ForwardPlan learn_forward(const ModuleParameters& parameters, const std::function<at::Tensor()>& loss,
                          OperatorTimer* timer = nullptr);

// The same for a forward pass without gradients, such as an evaluation. Its results are any tensors. `cut`: sections of
// the training pass, which errors name.
using ForwardResults = std::function<std::vector<at::Tensor>()>;
ForwardPlan learn_evaluation(const ModuleParameters& parameters, const Sections& cut, const ForwardResults& function);

}  // namespace zero
