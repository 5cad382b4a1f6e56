// open_first_weights(): the file that a run's model begins with, opened and matched before anything is allocated. What lies
// beside it and tells another model is refused first (model_of_weights.h).
//
//   const std::optional<InitialWeights> init = open_first_weights(job, corpus, *task);   // empty: random values
//
// Local. Throws as InitialWeights does; weights that have another number of tokens are told beside what says how many the
// model has: a key, a tokenizer, a vocabulary, or a token of the data.
#pragma once

#include <optional>

#include "app/data/open_data.h"
#include "app/train/tasks/task.h"
#include "app/train/train_job.h"
#include "app/train/weights/weights.h"

namespace zero {

std::optional<InitialWeights> open_first_weights(const TrainJob& job, const Corpus& corpus, Task& task);

}  // namespace zero
