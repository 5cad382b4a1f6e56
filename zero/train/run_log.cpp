#include "zero/train/run_log.h"

#include <utility>

#include "zero/base/error.h"
#include "zero/base/log.h"

namespace zero {
namespace {

constexpr std::size_t kMostKeptBytes = std::size_t{16} << 20;

}  // namespace

RunLog::RunLog(const RunFolder& folder, Progress& progress, StepHistory history, Communicator& comm)
    : folder_(folder), progress_(progress), history_(std::move(history)), comm_(comm) {}

void RunLog::begin() {
  if (is_first()) metrics_.emplace(folder_.metrics());
}

int RunLog::exchange(int stop_signal) {
  const Exchanged news = history_.exchange(comm_, stop_signal);
  if (!is_first()) return news.stop_signal;
  for (const StepMetrics& step : news.steps) tell(step);
  write();
  return news.stop_signal;
}

void RunLog::write() {
  try {
    metrics_->flush();
    waits_ = false;
  } catch (const IoError& error) {
    if (metrics_->kept_bytes() > kMostKeptBytes) throw;
    if (!std::exchange(waits_, true)) ZERO_LOG(error, "metrics are kept until they can be written: {}", error.what());
  }
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
                  .loss_scale = step.loss_scale,
                  .rate = since_line_.tokens / since_line_.seconds,
                  .seconds = since_line_.seconds / static_cast<double>(since_line_.step),
                  .memory_bytes = step.memory.total()});
  since_line_ = {};
}

void RunLog::add(EvaluationMetrics metrics) {
  if (!is_first()) return;
  metrics.time = unix_seconds();
  metrics_->add(metrics);
  write();
}

void RunLog::tell(HealthEvent event) {
  event.time = unix_seconds();
  if (event.action != HealthAction::kSkip) progress_.line(describe(event));  // of that the engine has told
  if (!is_first()) return;
  metrics_->add(event);
  write();
}

void RunLog::take_back(std::int64_t step) {
  since_line_ = {};
  if (!is_first()) return;
  metrics_->take_back(step);
  write();
}

void RunLog::finish() {
  if (is_first()) metrics_->flush();
}

}  // namespace zero
