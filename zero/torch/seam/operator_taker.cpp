#include "zero/torch/seam/operator_taker.h"

#include <utility>

#include "zero/torch/seam/dispatch_key.h"

namespace zero {
namespace {

// The only thread-local variable of the project: an operator passes no context to the fallback.
thread_local OperatorTaker* current_taker = nullptr;

}  // namespace

OperatorTaker* OperatorTaker::current() {
  return current_taker;
}

std::vector<at::Tensor> OperatorTaker::run_together(const Function& function, const std::vector<at::Tensor>& inputs,
                                                    const std::vector<at::Tensor>& /*like*/) {
  return function(inputs);
}

TakeOperators::TakeOperators(OperatorTaker& taker)
    : outer_(std::exchange(current_taker, &taker)), every_operator_(kParameterKey) {}

TakeOperators::~TakeOperators() {
  current_taker = outer_;
}

}  // namespace zero
