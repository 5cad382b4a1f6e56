// evaluate(): the loss over held-out data, which is the mean over every target, the same whatever the world is; and the
// share of targets that a task of classes finds.
//
//   const EvaluationResult found = evaluate(task, *corpus.validation, even_grid(6, 2, 1), /*batches=*/0, comm);
//   found.loss; found.accuracy.value_or(0);
//
// Ranks share the batches evenly; sums of losses and counts of targets are added in rank order. `batches` limits how
// many each rank looks at, from the start; 0: all. Without gradients and dropout. Collective; the result is the same on
// every rank.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "zero/comm/communicator.h"

#include "app/data/batches.h"
#include "app/train/tasks/task.h"

namespace zero {

struct EvaluationResult {
  double loss = 0;
  std::optional<double> accuracy;    // of a task of classes: 0 to 1
  std::optional<double> perplexity;  // of a task that has one: infinite where it is beyond double
};

// What the task says of one sample of the data, beside its target: classes, or numbers.
struct PredictedSample {
  std::int64_t sample = 0;
  double predicted = 0;
  double target = 0;
};
// Of the first `count` samples of one ordered pass, or as many as there are; nothing of a task without predictions, such as a
// language model. Without gradients and dropout. Collective: every rank computes the same samples.
std::vector<PredictedSample> predict_samples(Task& task, const Dataset& data, std::int64_t count);

EvaluationResult evaluate(Task& task, const Dataset& data, const BatchGrid& grid, std::int64_t batches,
                          Communicator& comm);
// `stop` is asked before each batch: Collective, with the same answer on every rank. Where it says true the rest is left out, and
// there is no result.
std::optional<EvaluationResult> evaluate_unless(const std::function<bool()>& stop, Task& task, const Dataset& data,
                                                const BatchGrid& grid, std::int64_t batches, Communicator& comm);

}  // namespace zero
