// evaluate(): the loss over held-out data, and for a task of classes the share of targets that are predicted correctly.
//
//   const EvaluationResult found = evaluate(task, *corpus.validation, even_grid(6, 2, 1), /*batches=*/0, comm);
//   found.loss; found.accuracy.value_or(0);
//
// The loss is the mean over every target, and the same for every world. Ranks share the batches evenly; sums of losses
// and counts of targets are added in rank order. `batches` limits the batches of each rank, from the start; 0: all. The
// model runs without gradients and dropout. Collective; the result is the same on every rank.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/torch/pipeline/attach_pipeline.h"

#include "app/data/batches.h"
#include "app/train/tasks/task.h"

namespace zero {

struct EvaluationResult {
  double loss = 0;
  std::optional<double> accuracy;    // for a task of classes: 0 to 1
  std::optional<double> perplexity;  // for a task that has it: infinite if it exceeds double
};

// One sample of the data with its prediction and its target: classes, or numbers.
struct PredictedSample {
  std::int64_t sample = 0;
  double predicted = 0;
  double target = 0;
};
// Predicts the first `count` samples of one ordered pass, or all samples if there are fewer. Empty for a task without
// predictions, such as a language model. The model runs without gradients and dropout. `pipeline`: the sections of the
// model, if it is cut into sections. Collective: every rank computes the same samples.
std::vector<PredictedSample> predict_samples(Task& task, const Dataset& data, std::int64_t count,
                                             PipelineEngine* pipeline = nullptr);

EvaluationResult evaluate(Task& task, const Dataset& data, const BatchGrid& grid, std::int64_t batches,
                          Communicator& comm);
// Evaluates until `stop` returns true. If it does, there is no result. `stop` is called before each batch. It is
// Collective, and returns the same on every rank. `pipeline`: the sections of the model, if it is cut into sections.
// `equal_bits`: `batches` counts those of all ranks together, and losses are added in their order. So the result does
// not depend on the number of ranks.
std::optional<EvaluationResult> evaluate_unless(const std::function<bool()>& stop, Task& task, const Dataset& data,
                                                const BatchGrid& grid, std::int64_t batches, Communicator& comm,
                                                PipelineEngine* pipeline = nullptr, bool equal_bits = false);

}  // namespace zero
