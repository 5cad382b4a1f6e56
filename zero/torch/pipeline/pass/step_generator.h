// StepGenerator: the random numbers of each micro-batch of a step, whatever the order of passes.
//
//   StepGenerator generator(forward.draws(), /*micros=*/4, line);
//   generator.begin(micro);  ...a forward pass of that micro-batch...  generator.end(micro);
//   generator.end_step();
//
// Without a pipeline a micro-batch draws its numbers from libtorch's default generator after the one before it. Here
// passes of several micro-batches interleave, and each section has a forward pass of its own. So each forward pass
// begins with the generator's state at the start of its micro-batch. The first rank of a line gives the state of the
// first. Ranks that are threads of one process share a generator, so they cannot draw.
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
  // The generator continues as after the last micro-batch.
  void end_step();

 private:
  std::vector<at::Tensor> starts_;  // by micro-batch, and the end of the last
};

}  // namespace zero
