#include "app/train/watch/evaluation.h"

#include <algorithm>
#include <array>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "zero/base/error/check.h"
#include "zero/plan/pipeline/pipeline_grid.h"
#include "zero/torch/pipeline/pipelined_module.h"

#include "app/report/files/rank_values.h"

namespace zero {
namespace {

// Sets evaluation mode; the destructor restores training mode, also after an exception.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) : module_(module) { module_.eval(); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() { module_.train(); }

 private:
  torch::nn::Module& module_;
};

// Adds the losses of batch 0 of the first `count` ranks in rank order, then those of batch 1, and so on.
double sum_in_order(const std::vector<std::vector<double>>& ranks, int count) {
  double sum = 0;
  for (std::size_t batch = 0; batch < ranks.front().size(); ++batch)
    for (int rank = 0; rank < count; ++rank) sum += ranks[static_cast<std::size_t>(rank)][batch];
  return sum;
}

// The ranks of a line have the same scores.
PipelineGrid pipeline_grid_in(Communicator& comm, PipelineEngine* pipeline) {
  return pipeline == nullptr ? pipeline_grid_of(comm.rank(), comm.world(), 1) : pipeline->module().grid();
}

Task::Score score_in_sections(Task& task, PipelineEngine& pipeline, const Batch& batch) {
  std::vector<std::int64_t> key = batch.input.shape;
  key.insert(key.end(), batch.target.shape.begin(), batch.target.shape.end());
  const std::vector<torch::Tensor> results = pipeline.evaluate(key, [&]() -> std::vector<torch::Tensor> {
    const Task::Score score = task.score(batch);
    return {score.loss, score.num_correct};
  });
  return {results.at(0), results.at(1)};
}

torch::Tensor predict_in_sections(Task& task, PipelineEngine& pipeline, const torch::Tensor& input) {
  constexpr std::int64_t kPredictions = -2;  // scores have keys of sizes
  if (task.language_model() != nullptr) return {};
  std::vector<std::int64_t> key{kPredictions};
  key.insert(key.end(), input.sizes().begin(), input.sizes().end());
  return pipeline.evaluate(key, [&] { return std::vector{task.predictions(input)}; }).front();
}

}  // namespace

EvaluationResult evaluate(Task& task, const Dataset& data, const BatchGrid& grid, std::int64_t batches,
                          Communicator& comm) {
  return evaluate_unless({}, task, data, grid, batches, comm).value();
}

std::optional<EvaluationResult> evaluate_unless(const std::function<bool()>& stop, Task& task, const Dataset& data,
                                                const BatchGrid& grid, std::int64_t batches, Communicator& comm,
                                                PipelineEngine* pipeline, bool equal_bits) {
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(task.module());
  const EvaluationBatches all(data, grid);
  const PipelineGrid own = pipeline_grid_in(comm, pipeline);
  const std::int64_t ranks = own.data_ranks;
  const std::int64_t most = equal_bits ? (batches + ranks - 1) / ranks : batches;
  const std::int64_t count = batches == 0 ? all.num_batches() : std::min(most, all.num_batches());
  const auto is_counted = [&](std::int64_t i) {
    return !equal_bits || batches == 0 || i * ranks + own.data_rank < batches;
  };
  double loss = 0;
  std::vector<double> losses;  // with equal_bits: by batch
  double targets = 0;
  double correct = 0;
  bool has_classes = false;
  const bool counts = own.position == 0;
  Batch batch;
  for (std::int64_t i = 0; i < count; ++i) {
    if (stop && stop()) return std::nullopt;
    const std::int64_t num_targets = all.fill(i, batch);
    const auto counted = static_cast<double>(is_counted(i) ? num_targets : 0);
    // Every rank runs the model, also if none of its targets count, because all ranks gather the units.
    const Task::Score score = pipeline == nullptr ? task.score(batch) : score_in_sections(task, *pipeline, batch);
    const double mean = score.loss.item<double>();
    has_classes = score.num_correct.defined();
    if (equal_bits) losses.push_back(counted > 0 ? mean * counted : 0);
    if (!counts) continue;
    if (counted > 0 && !equal_bits) loss += mean * counted;
    if (counted > 0 && has_classes) correct += score.num_correct.item<double>();
    targets += counted;
  }
  const std::array<double, 3> mine{loss, targets, correct};
  double total_loss = 0;
  double total_targets = 0;
  double total_correct = 0;
  for (const auto& rank : gather_ranks<double>(comm, mine)) {
    total_loss += rank[0];
    total_targets += rank[1];
    total_correct += rank[2];
  }
  if (equal_bits) total_loss = sum_in_order(gather_ranks<double>(comm, losses), own.data_ranks);
  ZERO_CHECK(total_targets > 0, "an evaluation without targets");
  EvaluationResult found{.loss = total_loss / total_targets};
  if (has_classes) found.accuracy = total_correct / total_targets;
  found.perplexity = task.perplexity(found.loss);
  return found;
}

std::vector<PredictedSample> predict_samples(Task& task, const Dataset& data, std::int64_t count,
                                             PipelineEngine* pipeline) {
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(task.module());
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < std::min(count, data.pass_size()); ++i) samples.push_back(data.pass_sample(i));
  if (samples.empty()) return {};
  Batch batch;
  data.fill(samples, batch);
  const torch::Tensor input = as_tensor(batch.input);
  const torch::Tensor found =
      pipeline == nullptr ? task.predictions(input) : predict_in_sections(task, *pipeline, input);
  if (!found.defined()) return {};
  const torch::Tensor predicted = found.to(at::kDouble).flatten();
  const torch::Tensor target = as_tensor(batch.target).to(at::kDouble).flatten();
  std::vector<PredictedSample> pairs;
  for (std::int64_t i = 0; i < predicted.numel(); ++i)
    pairs.push_back({.sample = samples[static_cast<std::size_t>(i)],
                     .predicted = predicted[i].item<double>(),
                     .target = target[i].item<double>()});
  return pairs;
}

}  // namespace zero
