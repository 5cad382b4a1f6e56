// time_passes(): how long a forward and a backward pass of a model take here: a trial on samples of its own data, before
// there is a run.
//
//   const auto task = make_task(model, corpus.shape(), seed);
//   const PassSeconds found = time_passes(*task, *corpus.train, {.samples = 32, .dtype = DType::kBFloat16});
//   found.forward + found.backward              // of a micro-batch, on torch's threads as they are set
//
// A dry pass, then the median of up to five, as many as fit into the limit; of a model whose dry pass takes longer than that,
// the dry pass alone. The model is attached to a world of this process, at stage 0, with plain SGD and a rate of 0: it holds its
// parameters and gradients (and fp32 masters) for as long as the task lives. Nothing is written. Local. Throws
// ConfigError under "train.dtype" for an operator that libtorch lacks, as a run does (operator_trial.h).
#pragma once

#include <cstdint>

#include "zero/base/numbers/dtype.h"

#include "app/data/sample/dataset.h"
#include "app/train/tasks/task.h"

namespace zero {

struct PassTrial {
  std::int64_t samples = 1;  // of a micro-batch
  DType dtype = DType::kFloat32;
  int threads = 1;             // of the model's engine
  double limit_seconds = 1.5;  // no pass begins after it
};

struct PassSeconds {
  double forward = 0;
  double backward = 0;
  int passes = 0;  // of which they are the median
};

PassSeconds time_passes(Task& task, const Dataset& data, const PassTrial& trial);

// Bytes that the trial holds of a model with so many parameters, without activations.
std::int64_t trial_state_bytes(std::int64_t num_parameters, DType dtype);

}  // namespace zero
