// OperatorTaker: receives every operator that runs on this thread, instead of the dispatcher.
//
//   class Recorder final : public OperatorTaker { void run(op, keys, stack) override; };
//   { const TakeOperators scope(recorder); auto net = std::make_shared<Net>(); }   // recorder.run() for each operator
//
// libtorch calls the fallback of kParameterKey as a plain function without a context argument. So the taker is found
// through the only thread-local variable of the project (docs/decisions/0002). Views that libtorch calls without the
// fallback (view, transpose, reshape, ...) do not arrive. Local to the thread; scopes can be nested.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace zero {

class RepeatedPart;

class OperatorTaker {
 public:
  virtual ~OperatorTaker() = default;
  // Takes the arguments from the stack and puts the results there.
  virtual void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) = 0;

  // An activation checkpoint (zero::checkpoint()) begins: the operators of its function follow. Null: this taker does
  // not compute them, so they are recorded like any others, and end_checkpoint() is called after them.
  virtual std::unique_ptr<RepeatedPart> begin_checkpoint() { return nullptr; }
  virtual void end_checkpoint() {}

  // A region of a pipeline (zero::together()): by default its function runs like any other code.
  using Function = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;
  virtual std::vector<at::Tensor> run_together(const Function& function, const std::vector<at::Tensor>& inputs,
                                               const std::vector<at::Tensor>& like);

  // Returns the calling thread's taker, or null. Only TakeOperators sets it.
  static OperatorTaker* current();
};

// The operators of an activation checkpoint, for the taker that computes them. They run twice: in the forward pass, and
// again in the backward pass.
class RepeatedPart {
 public:
  virtual ~RepeatedPart() = default;
  // Makes inputs readable that another rank computes.
  virtual void receive(const std::vector<at::Tensor>& inputs) = 0;
  // Ends the first run. Appends tensors to `outputs` that other operators read, and that the function did not return.
  virtual void end_first_run(std::vector<at::Tensor>& outputs) = 0;
  // Gives the outputs as all later operators see them, in the order of end_first_run().
  virtual void set_outputs(const std::vector<at::Tensor>& outputs) = 0;
  // Runs the function again. Returns its outputs, and those that end_first_run() appended.
  virtual std::vector<at::Tensor> run_again(const std::function<std::vector<at::Tensor>()>& function) = 0;
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
