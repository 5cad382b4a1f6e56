#include "app/train/steps/served_step.h"

#include <limits>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/process/clock.h"
#include "zero/serve/role/server_role.h"
#include "zero/torch/engine_control.h"

namespace zero {
namespace {

PushServer& required_server(Engine& engine) {
  PushServer* const server = server_of(engine.control().role());
  ZERO_CHECK(server != nullptr, "a served step on a rank that is no server");
  return *server;
}

std::vector<std::int64_t> applied_of(const std::vector<ServedWorker>& workers) {
  std::vector<std::int64_t> applied;
  for (const ServedWorker& worker : workers) applied.push_back(worker.applied);
  return applied;
}

std::vector<RankFigures> figures_of(const std::vector<ServedWorker>& workers) {
  std::vector<RankFigures> figures;
  for (const ServedWorker& worker : workers)
    figures.push_back({.steps = static_cast<double>(worker.pushes),
                       .waited_seconds = worker.waited_seconds,
                       .sent_served = static_cast<double>(worker.pushed_bytes),
                       .gradients = static_cast<double>(worker.applied),
                       .dropped = static_cast<double>(worker.dropped),
                       .sum_of_ages = static_cast<double>(worker.sum_of_ages),
                       .most_age = static_cast<double>(worker.most_age)});
  return figures;
}

}  // namespace

ServedStep::ServedStep(const TrainJob& job, const Task& task, Engine& engine, Communicator& run,
                       const RunFolder& folder, std::int64_t begun)
    : job_(job),
      task_(task),
      engine_(engine),
      run_(run),
      server_(required_server(engine)),
      last_loss_(std::numeric_limits<double>::quiet_NaN()) {
  if (run.rank() == 0) {
    if (!job.replay.empty()) server_.replay(PushLog::read(RunFiles(job.replay).pushes).events);
    log_.emplace(folder.files().pushes, begun, job.places);
    server_.set_log({.event = [this](const PushEvent& event) { log_->add(event); }});
  }
  server_.set_configuration(job.config_hash);
  server_.begin(begun);
}

TakenStep ServedStep::take(const RunState& done, const TrainingStep::Limits& limits) {
  TakenStep taken{.metrics = metrics_of(job_, task_, done, job_.attach.sync.num_workers(run_.world()))};
  StepMetrics& metrics = taken.metrics;
  const double begin = monotonic_seconds();
  const Traffic before = run_.traffic();
  const double waited = run_.waited_seconds();
  const ServedClock served = server_.serve(
      done.step + 1, {.lr = [this](std::int64_t clock) { return lr_at(job_.schedule, clock); }, .limits = limits});
  if (log_) log_->flush();
  if (server_.num_clocks() <= done.step) throw CommError(-1, "push", "no worker is left");
  if (served.num_judged() > 0) last_loss_ = served.loss;
  const Traffic& after = run_.traffic();
  metrics.loss = last_loss_;
  metrics.seconds = monotonic_seconds() - begin;
  metrics.time = unix_seconds();
  metrics.grad_norm = served.report.grad_norm;
  metrics.work = engine_.control().take_work_seconds();
  metrics.served = {.updates = served.updates,
                    .dropped = served.dropped,
                    .mean_age = served.mean_age,
                    .most_age = served.most_age,
                    .pushed_bytes = after.received_bytes - before.received_bytes,
                    .pulled_bytes = after.sent_bytes - before.sent_bytes,
                    .waited_seconds = run_.waited_seconds() - waited,
                    .replaced = served.replaced,
                    .of_workers = applied_of(served.workers)};
  metrics.mine.sent_served = static_cast<double>(metrics.served->pulled_bytes);
  metrics.workers = figures_of(served.workers);
  taken.report = served.report;
  taken.report.loss = metrics.loss;
  return taken;
}

void ServedStep::dismiss(std::int64_t done) {
  server_.dismiss();
  if (!log_) return;
  if (done >= job_.train.steps) log_->end(done);
  log_->flush();
}

}  // namespace zero
