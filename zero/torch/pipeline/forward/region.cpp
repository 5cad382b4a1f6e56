#include "zero/torch/pipeline/forward/region.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include "zero/base/error/error.h"
#include "zero/torch/deferred/surroundings.h"
#include "zero/torch/pipeline/forward/absent_tensor.h"
#include "zero/torch/pipeline/forward/together.h"
#include "zero/torch/seam/dispatch_key.h"

namespace zero {
namespace {

using Tensors = Region::Tensors;

c10::OperatorHandle together_operator() {
  static const torch::Library library = [] {
    torch::Library own(torch::Library::DEF, "zero", std::nullopt, __FILE__, __LINE__);
    own.def("together(Tensor[] inputs, Tensor[] like) -> Tensor[]");
    return own;
  }();
  return c10::Dispatcher::singleton().findSchemaOrThrow("zero::together", "");
}

at::Tensor layout_of(const at::Tensor& like) {
  return at::empty_strided(like.sizes(), like.strides(), at::TensorOptions().dtype(like.dtype()).device(c10::kMeta))
      .requires_grad_(c10::GradMode::is_enabled() && like.requires_grad());
}

// The taker does not see these operators.
Tensors layouts_of(const Tensors& like) {
  const c10::impl::ExcludeDispatchKeyGuard not_taken(kParameterKey);
  Tensors layouts;
  for (const at::Tensor& tensor : like) layouts.push_back(layout_of(tensor));
  return layouts;
}

// Takes the arguments from the stack: the inputs and the layouts of the results.
std::pair<Tensors, Tensors> arguments_of(torch::jit::Stack& stack) {
  Tensors like = torch::jit::pop(stack).toTensorVector();
  Tensors inputs = torch::jit::pop(stack).toTensorVector();
  return {std::move(inputs), std::move(like)};
}

void check_result(const at::Tensor& result, const at::Tensor& like) {
  if (!result.defined() || result.sizes() != like.sizes() || result.scalar_type() != like.scalar_type())
    throw ConfigError("together", result.defined() ? TensorLayout::of(result).text() : "undefined",
                      fmt::format("the function returned this, and `like` is {}", TensorLayout::of(like).text()),
                      "give `like` the sizes and the type of the result");
  if (result.requires_grad() != like.requires_grad())
    throw ConfigError("together", TensorLayout::of(result).text(),
                      result.requires_grad() ? "the result needs a gradient, and `like` does not"
                                             : "the result needs no gradient, and `like` does",
                      "call requires_grad_() of `like`, or detach() the result");
}

}  // namespace

Tensors Region::take(const OperatorTaker::Function& function, const Tensors& inputs, const Tensors& like,
                     const std::function<void(const c10::OperatorHandle& op, torch::jit::Stack& stack)>& take) {
  if (is_open()) return function(inputs);
  torch::jit::Stack stack{inputs, layouts_of(like)};
  struct Close {
    Region& region;
    ~Close() { region.function_ = nullptr; }
  };
  const Close close{*this};
  function_ = &function;
  take(together_operator(), stack);
  return stack.back().toTensorVector();
}

void Region::run(torch::jit::Stack& stack) const {
  const auto [inputs, like] = arguments_of(stack);
  Tensors results = (*function_)(inputs);
  if (results.size() != like.size())
    throw ConfigError("together", fmt::format("{} results", results.size()), fmt::format("`like` has {}", like.size()),
                      "return as many results as `like` has");
  for (std::size_t i = 0; i < results.size(); ++i) {
    check_result(results[i], like[i]);
    if (results[i].strides() != like[i].strides())
      results[i] = at::empty_strided(like[i].sizes(), like[i].strides(), results[i].options()).copy_(results[i]);
  }
  stack.emplace_back(std::move(results));
}

void Region::run_alone(torch::jit::Stack& stack) const {
  const at::Tensor before = generator_state();
  run(stack);
  if (!at::equal(before, generator_state()))
    throw ConfigError("together", "fn", "it draws random numbers, which the other ranks do not draw",
                      "draw them before together(), and pass them in `inputs`");
}

void Region::run_on_meta(torch::jit::Stack& stack) {
  const Tensors like = arguments_of(stack).second;
  Tensors results;
  for (const at::Tensor& layout : like) results.push_back(layout_of(layout));
  stack.emplace_back(std::move(results));
}

std::vector<at::Tensor> together(const std::function<Tensors(const Tensors&)>& fn, const Tensors& inputs,
                                 const Tensors& like) {
  OperatorTaker* const taker = OperatorTaker::current();
  return taker == nullptr ? fn(inputs) : taker->run_together(fn, inputs, like);
}

at::Tensor together(const std::function<at::Tensor(const Tensors&)>& fn, const Tensors& inputs,
                    const at::Tensor& like) {
  const auto as_list = [&fn](const Tensors& in) { return Tensors{fn(in)}; };
  return together(std::function<Tensors(const Tensors&)>(as_list), inputs, Tensors{like}).front();
}

}  // namespace zero
