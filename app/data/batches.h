// TrainingBatches, EvaluationBatches: the batches of a rank, filled with samples of a Dataset.
//
//   TrainingBatches train(*corpus.train, Order::kShuffled, seed, even_grid(6, 2, rank));
//   train.fill(step * accumulate + micro, batch);
//
//   EvaluationBatches all(*corpus.validation, even_grid(6, 2, rank));
//   for (i < all.num_batches()) { counted = all.fill(i, batch); total += loss(batch) * counted; targets += counted; }
//
// Both refer to the dataset, which must outlive them. They may be used from any thread. Local.
#pragma once

#include <cstdint>
#include <vector>

#include "app/data/sample/dataset.h"

namespace zero {

// The leaves of a step, for TrainingBatches.
struct LeavesOfRank {
  std::int64_t count = 0;            // of a step; 0: none
  std::vector<std::int64_t> leaves;  // by micro-batch of a step
};

class TrainingBatches {
 public:
  // `first_sample`: the number of samples that the run has taken before, with any number of ranks. Micro-batch 0 begins
  // there. `of_rank`: the leaf of each micro-batch; leaf l of a step has its samples l * batch ... Without leaves the
  // ranks of the grid take samples in turn.
  TrainingBatches(const Dataset& data, Order order, std::uint64_t seed, BatchGrid grid, std::int64_t first_sample = 0,
                  LeavesOfRank of_rank = {});

  // Fills samples g .. g + batch - 1, with g = first_sample + global_sample_index(grid, micro_batch, 0).
  void fill(std::int64_t micro_batch, Batch& batch) const;

 private:
  std::int64_t first_sample_of(std::int64_t micro_batch) const;

  const Dataset& data_;
  Order order_;
  std::uint64_t seed_;
  BatchGrid grid_;
  std::int64_t first_sample_;
  LeavesOfRank of_rank_;
};

// A pass in order that all ranks share: batch i of a rank begins at sample i * together + before. Every rank has the
// same number of batches, because their collectives must match.
class EvaluationBatches {
 public:
  EvaluationBatches(const Dataset& data, BatchGrid grid);

  std::int64_t num_batches() const;

  // Fills batch i and returns the number of targets that count: the weight of its mean loss. A batch at the end may
  // have fewer rows. If no samples are left for a rank, its batch has the last sample again, and the number is 0.
  std::int64_t fill(std::int64_t i, Batch& batch) const;

 private:
  const Dataset& data_;
  BatchGrid grid_;
};

}  // namespace zero
