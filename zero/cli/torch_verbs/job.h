// From the configuration to what the parts are told: each gets its own options, none the whole.
//
//   TrainJob job = make_job(loaded, world.local_size());     // `loaded` after fit_to_world()
//
// Local. What can only be wrong together with data or model is judged by those parts.
#pragma once

#include <cstdint>
#include <optional>

#include "zero/command/torch_entry.h"
#include "zero/config/config.h"
#include "zero/config/load.h"
#include "zero/config/resolved.h"
#include "zero/data/dataset.h"
#include "zero/data/open_data.h"
#include "zero/memory/activation_offload_values.h"
#include "zero/torch/attach.h"
#include "zero/train/model_options.h"
#include "zero/train/train_job.h"

namespace zero::cli {

TrainJob make_job(const Config& config, int local_ranks);

// The parts of it that planning and measuring need.
ModelOptions model_options(const Config& config);
DataOptions data_options(const Config& config);
AttachOptions attach_options(const Config& config, int local_ranks);
// Of a rank's offloaded activations, where no budget in bytes is theirs, too.
std::int64_t host_activation_bytes(const Config& config);
// The same on each tier, whatever the budgets are: on the device blocks, through which they come and go.
ActivationOffloadNeed activation_need(const Config& config);

// The data as a run opens it; absent where it is not here.
std::optional<Corpus> corpus_here(const Config& config);
// The same with all that a run refuses of data and model together.
std::optional<Corpus> corpus_here(const Config& config, const TrainJob& job);
// Samples of one pass over the training data; absent where the data is not here.
std::optional<std::int64_t> samples_of_pass(const Config& config);
// The same of the validation data: 0 where nothing is held out.
std::optional<std::int64_t> samples_of_validation(const Config& config);

// The shape of the data without the data: for a job that is planned elsewhere. The file is looked at when the model
// leaves open what only it knows; ConfigError when it is not there either.
SampleShape planned_shape(const Config& config);

}  // namespace zero::cli
