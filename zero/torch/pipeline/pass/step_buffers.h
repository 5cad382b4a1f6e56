// StepBuffers: the model's buffers during the passes of one step, such as the running statistics of a batch norm.
//
//   StepBuffers buffers(parameters.buffers, forward, /*micros=*/4);
//   buffers.begin(micro);  ...a forward pass of that micro-batch...  buffers.end(micro);
//   buffers.begin_backward(micro);
//   buffers.end_step(line, plan.rank_of_section);
//
// Only the passes of one section write a buffer of that section, in the order of micro-batches. At the end of the step
// the other ranks of the line receive its values. Every forward pass of every rank writes a common buffer, such as a
// count of batches. So a forward pass begins with the values that common buffers have at the start of its micro-batch.
// A backward pass begins with their values after the forward pass of its micro-batch.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "zero/comm/communicator.h"
#include "zero/torch/module/model_tensors.h"
#include "zero/torch/pipeline/forward/forward_plan.h"

namespace zero {

class StepBuffers {
 public:
  // `buffers` and `forward` must outlive the object.
  StepBuffers(const std::vector<ModelTensors::Buffer>& buffers, const ForwardPlan& forward, int micros);

  // Local.
  void begin(int micro);
  void end(int micro);
  void begin_backward(int micro);
  // Collective over the line. Afterwards every rank has the values of all buffers. `positions`: by section.
  void end_step(Communicator& line, const std::vector<int>& positions);

 private:
  using Values = std::vector<at::Tensor>;
  void set(const Values& values) const;
  Values now() const;
  static void share(const std::vector<at::Tensor>& tensors, Communicator& line, int position);

  const std::vector<ModelTensors::Buffer>& buffers_;
  const ForwardPlan& forward_;
  // Values of the common buffers at the start of each micro-batch, and after the last one.
  std::vector<Values> starts_;
};

}  // namespace zero
