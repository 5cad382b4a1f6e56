// machine_of(): the machines of a plan: what one has, and what a rank's activations take there.
//
//   plan.machine = machine_of(request, model, shape, attach);
//   fit_of(plan)                                    // zero/report/memory_fit.h
//
// Local. Whether a plan fits is asked of this machine, and of others like it.
#pragma once

#include "zero/command/torch_entry.h"
#include "zero/data/dataset.h"
#include "zero/report/memory_fit.h"
#include "zero/torch/attach.h"
#include "zero/train/model_options.h"

namespace zero::cli {

PlannedMachine machine_of(const PlanRequest& request, const ModelOptions& model, const SampleShape& shape,
                          const AttachOptions& attach);

}  // namespace zero::cli
