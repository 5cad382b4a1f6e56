// try_operators(): one forward and one backward pass of a run's model in fp16, before anything is written, so that an
// operator that libtorch lacks for fp16 on a CPU is a refused configuration, and no run that breaks off.
//
//   try_operators(run);      // the engine has its values; nothing of it, and nothing of the run, changes
//
// Collective. Throws ConfigError under "train.dtype" that names the operator. A no-op for other types.
#pragma once

#include <functional>

#include "zero/base/numbers/dtype.h"

#include "app/train/run/run.h"

namespace zero {

void try_operators(Run& run);

// Local. Runs `pass`, and turns libtorch's word for an operator that it does not have for a shorter type into that error.
void with_operators_of(DType dtype, const std::function<void()>& pass);

}  // namespace zero
