#include "app/report/step_history.h"

#include <algorithm>
#include <span>
#include <utility>

#include "app/report/files/rank_values.h"

namespace zero {
namespace {

constexpr double kHearWithinSeconds = 0.25;
constexpr std::int64_t kLongestInterval = 1000;

// A rank's values: its signal, its figures, then loss and seconds of each step.
constexpr std::size_t kFigures = 1, kSteps = kFigures + kNumRankFigures;

RankFigures sum_of_mine(const std::vector<StepMetrics>& steps) {
  RankFigures sum;
  for (const StepMetrics& step : steps) sum += step.mine;
  return sum;
}

std::vector<RankFigures> sums_of_workers(const std::vector<StepMetrics>& steps) {
  std::vector<RankFigures> sums;
  for (const StepMetrics& step : steps) {
    sums.resize(std::max(sums.size(), step.workers.size()));
    for (std::size_t worker = 0; worker < step.workers.size(); ++worker) sums[worker] += step.workers[worker];
  }
  return sums;
}

}  // namespace

bool StepHistory::is_logged(std::int64_t step) const {
  return step == 1 || step == steps_ || (log_every_ > 0 && step % log_every_ == 0);
}

bool StepHistory::exchange_due() const {
  return !pending_.empty() &&
         (is_logged(pending_.back().step) || static_cast<std::int64_t>(pending_.size()) >= interval_);
}

Exchanged StepHistory::exchange(Communicator& comm, int stop_signal) {
  std::vector<double> mine{static_cast<double>(stop_signal)};
  const auto figures = to_values(sum_of_mine(pending_));
  mine.insert(mine.end(), figures.begin(), figures.end());
  for (const StepMetrics& step : pending_) {
    mine.push_back(step.loss);
    mine.push_back(step.seconds);
  }
  const auto ranks = gather_ranks<double>(comm, mine);
  Exchanged news{.steps = std::exchange(pending_, {})};
  for (const auto& rank : ranks) news.stop_signal = std::max(news.stop_signal, static_cast<int>(rank[0]));
  if (!news.steps.empty()) {
    std::vector<RankFigures>& all = news.steps.back().ranks;
    for (const auto& rank : ranks) all.push_back(rank_figures(std::span(rank).subspan(kFigures, kNumRankFigures)));
    const std::vector<RankFigures> workers = sums_of_workers(news.steps);
    all.insert(all.end(), workers.begin(), workers.end());
    if (all.size() == 1) all.clear();
  }
  double slowest = 0;
  for (std::size_t i = 0; i < news.steps.size(); ++i) {
    StepMetrics& step = news.steps[i];
    step.loss = 0;
    step.seconds = 0;
    for (const auto& rank : ranks) step.seconds = std::max(step.seconds, rank[kSteps + 1 + 2 * i]);
    const std::size_t num_averaged = num_averaged_ == 0 ? ranks.size() : static_cast<std::size_t>(num_averaged_);
    for (std::size_t rank = 0; rank < num_averaged; ++rank) step.loss += ranks[rank][kSteps + 2 * i];
    step.loss /= static_cast<double>(num_averaged);
    slowest = std::max(slowest, step.seconds);
    losses_.push_back(static_cast<float>(step.loss));
    grad_norms_.push_back(step.grad_norm);
    seconds_.push_back(step.seconds);
  }
  if (slowest > 0)
    interval_ = std::clamp(static_cast<std::int64_t>(kHearWithinSeconds / slowest), std::int64_t{1}, kLongestInterval);
  return news;
}

}  // namespace zero
