// OperatorTaker: receives every operator that runs on this thread, instead of the dispatcher.
//
//   class Recorder final : public OperatorTaker { void run(op, keys, stack) override; };
//   { const TakeOperators scope(recorder); auto net = std::make_shared<Net>(); }   // recorder.run() for each operator
//
// libtorch calls the fallback of kParameterKey as a plain function without a context argument, so the taker is found
// through the only thread-local variable of the project (docs/decisions/0002). Views that libtorch calls without the
// fallback (view, transpose, reshape, ...) do not arrive. Local to the thread; scopes can be nested.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace zero {

class OperatorTaker {
 public:
  virtual ~OperatorTaker() = default;
  // Takes the arguments from the stack and puts the results there.
  virtual void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) = 0;

  // Returns the calling thread's taker, or null. Only TakeOperators sets it.
  static OperatorTaker* current();
};

class [[nodiscard]] TakeOperators {
 public:
  explicit TakeOperators(OperatorTaker& taker);
  ~TakeOperators();
  TakeOperators(const TakeOperators&) = delete;
  TakeOperators& operator=(const TakeOperators&) = delete;

 private:
  OperatorTaker* outer_;
  c10::impl::IncludeDispatchKeyGuard every_operator_;
};

}  // namespace zero
