// open_first_weights(): opens the file of a run's first weights and matches it before anything is allocated.
//
//   const std::optional<InitialWeights> init = open_first_weights(job, corpus, *task);   // empty: random values
//
// If files beside the weights describe another model, this is refused first (model_of_weights.h).
//
// Local. Throws as InitialWeights does. If the weights have another number of tokens, the error names the source of the
// model's number. That is a key, a tokenizer, a vocabulary, or a token of the data.
#pragma once

#include <optional>

#include "app/data/open_data.h"
#include "app/train/tasks/task.h"
#include "app/train/train_job.h"
#include "app/train/weights/weights.h"

namespace zero {

std::optional<InitialWeights> open_first_weights(const TrainJob& job, const Corpus& corpus, Task& task);

}  // namespace zero
