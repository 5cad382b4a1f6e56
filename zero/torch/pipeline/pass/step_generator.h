// StepGenerator: sets the random generator's state for each pass, so the order of passes changes no random number.
//
//   StepGenerator generator(forward.draws(), /*micros=*/4, line);
//   generator.begin(micro);  ...a forward pass of that micro-batch...  generator.end(micro);
//   generator.end_step();
//
// Without a pipeline, the micro-batches of a step draw from libtorch's default generator one after the other. In a
// pipeline their passes interleave, and each section runs the forward pass of each micro-batch. So each forward pass
// begins with the generator's state at the start of its micro-batch. The first micro-batch begins with the state of the
// line's first rank. Ranks that are threads of one process share a generator: if a model draws, ranks must be
// processes.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "zero/comm/communicator.h"

namespace zero {

class StepGenerator {
 public:
  // Collective over the line. `draws`: some operator draws numbers; otherwise all functions do nothing.
  StepGenerator(bool draws, int micros, Communicator& line);

  // Local.
  void begin(int micro);
  void end(int micro);
  // Sets the generator to its state after the last micro-batch.
  void end_step();

 private:
  // States at the start of each micro-batch, and after the last one. Empty: nothing draws.
  std::vector<at::Tensor> starts_;
};

}  // namespace zero
