// try_operators(): runs one forward and one backward pass of a run's model in fp16 before anything is written.
//
//   try_operators(run);      // the engine has its values; neither engine nor run changes
//
// If libtorch lacks an operator for fp16 on a CPU, the configuration is refused, and the run does not fail later.
// Collective. Throws ConfigError under "train.dtype" with the operator's name. No-op for other types.
#pragma once

#include <functional>

#include "zero/base/numbers/dtype.h"

#include "app/train/run/parts/run.h"

namespace zero {

void try_operators(Run& run);

// Local. Runs `pass`. If libtorch reports that it lacks an operator for a shorter type, throws this ConfigError
// instead.
void with_operators_of(DType dtype, const std::function<void()>& pass);

}  // namespace zero
