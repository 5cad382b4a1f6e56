// The loss over held-out data: the mean over every target, the same whatever the world is.
//
//   double val_loss = evaluate(task, *corpus.validation, {.batch = 6, .world = 2, .rank = 1}, /*batches=*/0, comm);
//
// Ranks share the batches evenly; sums of losses and counts of targets are added in rank order. `batches` limits how
// many each rank looks at, from the start; 0: all. Without gradients and dropout. Collective; the result is the same on
// every rank.
#pragma once

#include "zero/comm/communicator.h"
#include "zero/data/batches.h"
#include "zero/train/task.h"

namespace zero {

double evaluate(Task& task, const Dataset& data, const BatchGrid& grid, std::int64_t batches, Communicator& comm);

}  // namespace zero
