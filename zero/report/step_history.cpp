#include "zero/report/step_history.h"

#include <algorithm>
#include <utility>

#include "zero/report/rank_values.h"

namespace zero {
namespace {

constexpr double kHearWithinSeconds = 0.25;
constexpr std::int64_t kLongestInterval = 1000;

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
  for (const StepMetrics& step : pending_) {
    mine.push_back(step.loss);
    mine.push_back(step.seconds);
  }
  const auto ranks = gather_ranks<double>(comm, mine);
  Exchanged news{.steps = std::exchange(pending_, {})};
  for (const auto& rank : ranks) news.stop_signal = std::max(news.stop_signal, static_cast<int>(rank[0]));
  double slowest = 0;
  for (std::size_t i = 0; i < news.steps.size(); ++i) {
    StepMetrics& step = news.steps[i];
    step.loss = 0;
    step.seconds = 0;
    for (const auto& rank : ranks) {
      step.loss += rank[1 + 2 * i];
      step.seconds = std::max(step.seconds, rank[2 + 2 * i]);
    }
    step.loss /= static_cast<double>(ranks.size());
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
