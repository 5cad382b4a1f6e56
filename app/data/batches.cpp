#include "app/data/batches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "zero/base/error/check.h"

namespace zero {
namespace {

void check(const BatchGrid& grid) {
  ZERO_CHECK(grid.batch > 0 && grid.before >= 0 && grid.before + grid.batch <= grid.together,
             "{} samples behind {} of {}", grid.batch, grid.before, grid.together);
}

}  // namespace

TrainingBatches::TrainingBatches(const Dataset& data, Order order, std::uint64_t seed, BatchGrid grid,
                                 std::int64_t first_sample, LeavesOfRank of_rank)
    : data_(data), order_(order), seed_(seed), grid_(grid), first_sample_(first_sample), of_rank_(std::move(of_rank)) {
  check(grid);
}

std::int64_t TrainingBatches::first_sample_of(std::int64_t micro_batch) const {
  if (of_rank_.count == 0) return first_sample_ + global_sample_index(grid_, micro_batch, 0);
  const auto passes = std::ssize(of_rank_.leaves);
  const std::int64_t leaf = of_rank_.leaves[static_cast<std::size_t>(micro_batch % passes)];
  return first_sample_ + (micro_batch / passes * of_rank_.count + leaf) * grid_.batch;
}

void TrainingBatches::fill(std::int64_t micro_batch, Batch& batch) const {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(grid_.batch));
  const std::int64_t first = first_sample_of(micro_batch);
  for (std::int64_t g = first; std::int64_t & sample : samples) sample = data_.draw(order_, seed_, g++);
  data_.fill_training(samples, seed_, first, batch);
}

EvaluationBatches::EvaluationBatches(const Dataset& data, BatchGrid grid) : data_(data), grid_(grid) {
  check(grid);
}

std::int64_t EvaluationBatches::num_batches() const {
  return (data_.pass_size() + grid_.together - 1) / grid_.together;
}

std::int64_t EvaluationBatches::fill(std::int64_t i, Batch& batch) const {
  const std::int64_t last = data_.pass_size() - 1;
  const std::int64_t first = global_sample_index(grid_, i, 0);
  std::vector<std::int64_t> samples;
  for (std::int64_t j = first; j <= std::min(last, first + grid_.batch - 1); ++j)
    samples.push_back(data_.pass_sample(j));
  const bool nothing_left = samples.empty();
  if (nothing_left) samples.push_back(data_.pass_sample(last));
  const std::int64_t counted = data_.fill(samples, batch);
  return nothing_left ? 0 : counted;
}

}  // namespace zero
