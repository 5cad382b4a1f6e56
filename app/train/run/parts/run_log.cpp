#include "app/train/run/parts/run_log.h"

#include <algorithm>
#include <span>
#include <utility>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"

#include "app/report/files/rank_values.h"

namespace zero {
namespace {

constexpr std::size_t kMostKeptBytes = std::size_t{16} << 20;

}  // namespace

RunLog::RunLog(const RunFolder& folder, Progress& progress, StepHistory history, TimeLeft time_left, Communicator& comm)
    : folder_(folder),
      progress_(progress),
      history_(std::move(history)),
      time_left_(std::move(time_left)),
      comm_(comm) {}

void RunLog::begin() {
  if (!is_first()) return;
  metrics_.emplace(folder_.files().metrics);
  if (resumed_line_.empty()) return;
  metrics_->replace(resumed_step_, resumed_line_);
  write();
}

void RunLog::draw(const TensorboardStart& start) {
  tensorboard_.emplace(folder_.files().tensorboard, start);
}

int RunLog::exchange(int stop_signal) {
  const Exchanged news = history_.exchange(comm_, stop_signal);
  if (!is_first()) return news.stop_signal;
  for (const StepMetrics& step : news.steps) report(step, &step == &news.steps.back());
  write();
  return news.stop_signal;
}

void RunLog::flush() {
  metrics_->flush();
  if (tensorboard_) tensorboard_->flush();
}

void RunLog::write() {
  try {
    flush();
    waits_ = false;
  } catch (const IoError& error) {
    const std::size_t kept = metrics_->kept_bytes() + (tensorboard_ ? tensorboard_->kept_bytes() : 0);
    if (kept > kMostKeptBytes) throw;
    if (!std::exchange(waits_, true)) ZERO_LOG(error, "metrics are kept until they can be written: {}", error.what());
  }
}

void RunLog::report(const StepMetrics& step, bool is_newest) {
  metrics_->add(step);
  newest_ = step;
  if (tensorboard_) tensorboard_->add(step);
  time_left_.step(step.seconds);
  since_line_.seconds += step.seconds;
  since_line_.tokens += step.tokens;
  ++since_line_.step;
  if (history_.is_logged(step.step)) {
    progress_.step(values_of(step));
    since_line_ = {};
  } else if (is_newest) {
    progress_.live(values_of(step));
  }
}

ProgressValues RunLog::values_of(const StepMetrics& step) const {
  return {.step = step.step,
          .loss = step.loss,
          .lr = step.lr,
          .grad_norm = step.grad_norm,
          .loss_scale = step.loss_scale,
          .rate = since_line_.tokens / since_line_.seconds,
          .seconds = since_line_.seconds / static_cast<double>(since_line_.step),
          .seconds_left = time_left_.seconds(step.step),
          .memory_bytes = step.memory.device.total()};
}

void RunLog::add_to_last_step(const SentBytes& by_outer_steps) {
  const auto all = gather_ranks<SentBytes>(comm_, std::span(&by_outer_steps, 1));
  if (!is_first() || std::ranges::all_of(all, [](const auto& rank) { return rank.front().total == 0; })) return;
  if (newest_) {
    add_sent(*newest_, by_outer_steps);
    for (std::size_t rank = 0; rank < newest_->ranks.size(); ++rank)
      newest_->ranks[rank].add(all.at(rank).front().by_codec);
  } else if (!resumed_line_.empty()) {
    add_sent(resumed_line_, by_outer_steps);
  } else {
    return;
  }
  try {
    newest_ ? metrics_->replace(*newest_) : metrics_->replace(resumed_step_, resumed_line_);
  } catch (const IoError& error) {
    ZERO_LOG(error, "the last step's metrics lack the bytes of an outer step: {}", error.what());
  }
  write();
}

void RunLog::resume_at(std::int64_t step, std::string line) {
  resumed_step_ = step;
  resumed_line_ = std::move(line);
}

std::string RunLog::line_of(std::int64_t step) const {
  if (!is_first()) return "";
  if (newest_ && newest_->step == step) return to_json_line(*newest_);
  return resumed_step_ == step ? resumed_line_ : "";
}

void RunLog::add(EvaluationMetrics metrics) {
  if (!is_first()) return;
  metrics.time = unix_seconds();
  time_left_.evaluation(metrics.seconds, /*further=*/metrics.averaged);
  metrics_->add(metrics);
  if (tensorboard_) tensorboard_->add(metrics);
  write();
}

void RunLog::report(HealthEvent event) {
  event.time = unix_seconds();
  if (event.action != HealthAction::kSkip) progress_.line(describe(event));  // the engine has reported skips
  if (!is_first()) return;
  metrics_->add(event);
  write();
}

void RunLog::add(SavedMetrics metrics) {
  if (!is_first()) return;
  metrics.time = unix_seconds();
  metrics_->add(metrics);
  write();
}

void RunLog::take_back(std::int64_t step) {
  since_line_ = {};
  newest_.reset();
  progress_.take_back(step);
  if (!is_first()) return;
  metrics_->take_back(step);
  if (tensorboard_) tensorboard_->take_back(step);
  write();
}

void RunLog::finish() {
  if (is_first()) flush();
}

}  // namespace zero
