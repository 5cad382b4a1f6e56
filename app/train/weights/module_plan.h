// plan_of(), checkpoint_bytes(): the memory, traffic and checkpoint of a module, before it is attached.
//
//   TrainingPlan plan = plan_of("gpt2", module, world, attach_options);    // for plan_table()
//   checkpoint_bytes(module, world, attach_options)                        // of all ranks
//
// Local; computed from shapes. Throws ConfigError for invalid options.
#pragma once

#include <torch/nn/module.h>

#include "zero/torch/attach.h"

#include "app/report/plan/training_plan.h"

namespace zero {

TrainingPlan plan_of(const std::string& model, torch::nn::Module& module, int world, const AttachOptions& attach);

// Returns the bytes of a checkpoint of all ranks: parameters and moments in full precision.
std::int64_t checkpoint_bytes(torch::nn::Module& module, int world, const AttachOptions& attach);

}  // namespace zero
