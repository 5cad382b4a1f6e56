// make_job(): turns the configuration into the options of each part. No part gets the whole configuration.
//
//   TrainJob job = make_job(loaded.config, world.local_size());     // `loaded` after fit_to_world()
//
// Local. The parts themselves check options that depend on data or model.
#pragma once

#include <cstdint>
#include <optional>

#include "zero/memory/activation_offload_values.h"
#include "zero/torch/attach.h"

#include "app/cli/command/torch_entry.h"
#include "app/config/load.h"
#include "app/config/options/config.h"
#include "app/config/resolved.h"
#include "app/data/open_data.h"
#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"
#include "app/train/train_job.h"

namespace zero::cli {

TrainJob make_job(const Config& config, int local_ranks);

// The options that planning and measuring need.
ModelOptions model_options(const Config& config);
AttachOptions attach_options(const Config& config, int local_ranks);
// Returns activation_need(), with 0 on the host if the host's budget in bytes already contains it.
ActivationOffloadNeed activations_beside_budget(const Config& config);
// Returns the memory of offloaded activations on each tier, with any budgets. On the device it is the blocks through
// which they are copied.
ActivationOffloadNeed activation_need(const Config& config);

// Opens the data as a run does; nullopt if it is not on this machine.
std::optional<Corpus> corpus_here(const Config& config);
// Opens the data, and makes every check of data and model together that a run makes.
std::optional<Corpus> corpus_here(const Config& config, const TrainJob& job);
// Returns the samples of one pass over the training data; nullopt if the data is not on this machine.
std::optional<std::int64_t> samples_of_pass(const Config& config);
// Returns the samples of the validation data, 0 if there is none; nullopt if the data is not on this machine.
std::optional<std::int64_t> samples_of_validation(const Config& config);

// Returns the shape of the data without the data, for a job that is planned elsewhere. Reads the file if the model does
// not determine the shape. Throws ConfigError if the file is then missing.
SampleShape planned_shape(const Config& config);

}  // namespace zero::cli
