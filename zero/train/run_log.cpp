#include "zero/train/run_log.h"

#include <utility>

namespace zero {

RunLog::RunLog(const RunFolder& folder, Progress& progress, StepHistory history, Communicator& comm)
    : folder_(folder), progress_(progress), history_(std::move(history)), comm_(comm) {}

void RunLog::begin() {
  if (is_first()) metrics_.emplace(folder_.metrics());
}

int RunLog::exchange(int stop_signal) {
  const Exchanged news = history_.exchange(comm_, stop_signal);
  if (!is_first()) return news.stop_signal;
  for (const StepMetrics& step : news.steps) tell(step);
  metrics_->flush();
  return news.stop_signal;
}

void RunLog::tell(const StepMetrics& step) {
  metrics_->add(step);
  since_line_.seconds += step.seconds;
  since_line_.tokens += step.tokens;
  ++since_line_.step;
  if (!history_.is_logged(step.step)) return;
  progress_.step({.step = step.step,
                  .loss = step.loss,
                  .lr = step.lr,
                  .grad_norm = step.grad_norm,
                  .rate = since_line_.tokens / since_line_.seconds,
                  .seconds = since_line_.seconds / static_cast<double>(since_line_.step),
                  .memory_bytes = step.memory.total()});
  since_line_ = {};
}

void RunLog::add(EvaluationMetrics metrics) {
  if (!is_first()) return;
  metrics.time = unix_seconds();
  metrics_->add(metrics);
  metrics_->flush();
}

void RunLog::tell(HealthEvent event) {
  event.time = unix_seconds();
  if (event.action != HealthAction::kSkip) progress_.line(describe(event));  // of that the engine has told
  if (!is_first()) return;
  metrics_->add(event);
  metrics_->flush();
}

void RunLog::take_back(std::int64_t step) {
  since_line_ = {};
  if (!is_first()) return;
  metrics_.reset();
  folder_.reopen(step, {});
  begin();
}

}  // namespace zero
