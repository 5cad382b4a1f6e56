// time_passes(): measures a model's forward and backward pass here, on samples of its data, before there is a run.
//
//   const auto task = make_task(model, corpus.shape(), seed);
//   const PassSeconds found = time_passes(*task, *corpus.train, {.samples = 32, .dtype = DType::kBFloat16});
//   found.forward + found.backward              // of a micro-batch, with torch's current threads
//
// After a warm-up pass it returns the median of up to five passes, as many as fit into the limit. If the warm-up pass
// exceeds the limit, it is the only pass. The model is attached to a world of this process, at stage 0, with plain SGD
// and a rate of 0. It holds its parameters and gradients (and fp32 masters) as long as the task lives. Nothing is
// written. Local. Throws ConfigError under "train.dtype" for an operator that libtorch lacks, as a run does
// (operator_trial.h).
#pragma once

#include <cstdint>

#include "zero/base/numbers/dtype.h"

#include "app/data/sample/dataset.h"
#include "app/train/tasks/task.h"

namespace zero {

struct PassTrial {
  std::int64_t samples = 1;  // samples of a micro-batch
  DType dtype = DType::kFloat32;
  int threads = 1;             // threads of the model's engine
  double limit_seconds = 1.5;  // time after which no pass begins
};

struct PassSeconds {
  double forward = 0;
  double backward = 0;
  int passes = 0;  // number of passes in the median
};

PassSeconds time_passes(Task& task, const Dataset& data, const PassTrial& trial);

// Returns the bytes that the trial holds for a model with `num_parameters`, without activations.
std::int64_t trial_state_bytes(std::int64_t num_parameters, DType dtype);

}  // namespace zero
