// What the end of a run leaves beside its weights, and what is said where the end fails. Local.
#pragma once

#include <cstdint>
#include <string>

#include "zero/train/run_checkpoints.h"
#include "zero/train/run_folder.h"
#include "zero/train/task.h"

namespace zero {

// For transformers: config.json of a gpt2 beside its model.safetensors. False where one that is no model's is in the
// way. Throws IoError.
bool describe_weights(const RunFolder& folder, Task& task, DType dtype);

// Where the training of a run whose end failed can be found, as words behind "training is over, all 6 steps; ".
// `weights_written`: model.safetensors is there.
std::string where_training_is(const RunFolder& folder, const RunCheckpoints& checkpoints, bool saves,
                              bool weights_written, std::int64_t steps);

}  // namespace zero
