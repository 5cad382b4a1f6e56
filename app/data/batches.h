// The batches of a rank: which samples of a Dataset each batch holds.
//
//   TrainingBatches train(*corpus.train, Order::kShuffled, seed, even_grid(6, 2, rank));
//   train.fill(step * accumulate + micro, batch);
//
//   EvaluationBatches all(*corpus.validation, even_grid(6, 2, rank));
//   for (i < all.num_batches()) { counted = all.fill(i, batch); total += loss(batch) * counted; targets += counted; }
//
// Both borrow the dataset, hold nothing else, and may be used from any thread. Local.
#pragma once

#include <cstdint>

#include "app/data/sample/dataset.h"

namespace zero {

class TrainingBatches {
 public:
  // `first_sample`: seen before, by however many ranks; micro-batches count from there.
  TrainingBatches(const Dataset& data, Order order, std::uint64_t seed, BatchGrid grid, std::int64_t first_sample = 0);

  // Samples g .. g + batch - 1, g = first_sample + global_sample_index(grid, micro_batch, 0).
  void fill(std::int64_t micro_batch, Batch& batch) const;

 private:
  const Dataset& data_;
  Order order_;
  std::uint64_t seed_;
  BatchGrid grid_;
  std::int64_t first_sample_;
};

// One ordered pass, dealt to the ranks batch by batch: batch i begins at sample i * together + before.
// Every rank has the same number of batches, so that collectives match.
class EvaluationBatches {
 public:
  EvaluationBatches(const Dataset& data, BatchGrid grid);

  std::int64_t num_batches() const;

  // Returns how many targets count, which is the weight of this batch's mean loss. A batch at the end may have fewer
  // rows; a rank for which nothing is left gets the last sample again, with a count of 0.
  std::int64_t fill(std::int64_t i, Batch& batch) const;

 private:
  const Dataset& data_;
  BatchGrid grid_;
};

}  // namespace zero
