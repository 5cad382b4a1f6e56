#include "app/train/run/run_end.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include <torch/version.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/torch/seam/torch_device.h"

#include "app/data/token_text.h"
#include "app/models/generate.h"
#include "app/train/limits.h"
#include "app/train/run/model_in_sections.h"
#include "app/train/run/parts/run_evaluation.h"
#include "app/train/run/parts/run_saves.h"
#include "app/train/run/shown_predictions.h"
#include "app/train/watch/evaluation.h"

namespace zero {

RunEnd::RunEnd(Run& run, RunWeights weights) : run_(run), weights_(std::move(weights)) {}

RunReport RunEnd::finish() {
  RunReport report;
  try {
    report = write_all();
  } catch (const IoError& error) {
    if (!run_.ranks.is_first()) throw;
    const TrainJob& job = run_.job;
    throw error.within(fmt::format(
        "training is over, all {} steps; {}", run_.state.step,
        where_training_is(run_.folder, run_.checkpoints, job.checkpoint.on(), weights_written_, run_.state.step) +
            missing_average()));
  }
  run_.model.trained().abandon();
  return report;
}

std::string RunEnd::missing_average() const {
  if (!weights_written_ || run_.job.attach.ema == 0 || average_written_) return "";
  return fmt::format("; their average (train.ema) is not written to {}", run_.folder.files().averaged_model.string());
}

RunReport RunEnd::write_all() {
  RunReport report;
  run_.checkpoints.finish(run_.model.trained());
  if (run_.job.attach.local) {  // after the last save, so a resumed run does not have this outer step
    run_.model.engine->merge_copies();
    run_.records.log.add_to_last_step(run_.records.meter.merged(run_.model.engine->report().outer));
  }
  const std::optional<EvaluationResult> found = evaluate_run(run_, /*batches=*/0);
  report.validation.present = found && run_.data.corpus.validation != nullptr;
  if (found) {
    report.validation.loss = found->loss;
    report.validation.accuracy = found->accuracy;
    report.validation.perplexity = found->perplexity;
  }
  run_.model.torch_memory.learn(run_.ranks.comm());
  if (found) {  // otherwise a signal asked the run to end
    write_sample();
    write_predictions();
  }
  report.parameters_sha256 = save_weights(run_.model.trained(), run_.model.task->module(), std::move(weights_.model));
  weights_written_ = true;
  if (run_.job.attach.ema > 0) {
    const AveragedScope averages = run_.model.trained().averaged();
    write_weights(run_.model.trained(), run_.model.task->module(), std::move(weights_.average));
    average_written_ = true;
  }
  const DType dtype = run_.job.attach.dtype.value_or(DType::kFloat32);
  if (run_.ranks.is_first() && !describe_weights(dtype))
    run_.say("note: config.json in the run folder describes no model, and is not changed");
  fill(report);
  run_.records.log.finish();
  if (run_.ranks.is_first()) write_file(run_.folder.files().report, to_json(report));
  run_.records.progress.text(fmt::format("done: {}\n{}", run_.folder.path().string(), summary(report)));
  return report;
}

// Extends the config.json that the run wrote when it began.
bool RunEnd::describe_weights(DType dtype) const {
  const std::filesystem::path& folder = run_.folder.path();
  return run_.model.task->describe_weights(folder, dtype, run_.data.corpus.class_names, transformers_config_in(folder));
}

void RunEnd::write_sample() {
  const TrainJob& job = run_.job;
  LanguageModel* model = run_.model.task->language_model();
  if (job.train.sample == 0 || model == nullptr) return;
  std::optional<ModelInSections> in_sections;
  if (run_.model.pipeline) model = &in_sections.emplace(*model, *run_.model.pipeline);
  const TokenText text = TokenText::of(job.data.kind, job.data.tokenizer);
  run_.say("sample:");
  generate(*model, text.is_text() ? text.read("\n") : std::vector<std::int64_t>{},
           {.tokens = job.train.sample, .seed = job.train.seed, .place = place_of(*run_.ranks.device)},
           [&](std::int64_t token) { run_.records.progress.text(text.show(token)); });
  run_.say("");
}

void RunEnd::write_predictions() {
  if (run_.job.train.sample == 0 || !run_.data.corpus.validation) return;
  std::optional<PipelineEngine>& pipeline = run_.model.pipeline;
  const auto pairs = predict_samples(*run_.model.task, *run_.data.corpus.validation, run_.job.train.sample,
                                     pipeline ? &*pipeline : nullptr);
  if (pairs.empty()) return;
  run_.say("samples of the validation data, predicted and true:");
  // One column stays free, because some terminals begin a new line at the last column.
  run_.say(shown_predictions(pairs, *run_.data.corpus.validation,
                             static_cast<std::size_t>(run_.records.progress.columns() - 1)));
}

void RunEnd::fill(RunReport& report) {
  const TrainJob& job = run_.job;
  const Task& task = *run_.model.task;
  run_.records.meter.fill(report, run_.ranks.comm());
  report.model = job.model.name;
  report.dtype = name_of(job.attach.dtype.value_or(DType::kFloat32));
  report.steps.done = run_.state.step;
  report.steps.asked = job.train.steps;
  if (watched_measure(job)) report.validation.best = run_.state.best;
  report.steps.ended_early = report.steps.done < report.steps.asked;
  report.steps.losses = run_.records.log.history().losses();
  report.steps.grad_norms = run_.records.log.history().grad_norms();
  report.steps.seconds = run_.records.log.history().seconds();
  const std::int64_t tokens = task.tokens_per_sample();
  report.work.tokens = static_cast<double>(samples_per_step(job.train, run_.ranks.num_computing) * tokens);
  report.work.has_tokens = task.has_tokens();
  report.work.flops = task.flops_per_sample() * report.work.tokens / static_cast<double>(tokens);
  report.steps.rewinds = run_.state.rewinds;
  report.steps.spikes = run_.state.spikes;
  report.machine.disk = report.engine.disk;
  if (job.model.activation_offload) {
    report.machine.activations_on = name_of(job.model.activation_offload->tier);
    if (report.machine.disk.empty())
      report.machine.disk = run_.model.task->activations()->report().activation_offload.disk_kind;
  }
  report.machine.ranks_source = run_.ranks.world.source();
  report.shares = run_.data.shares.samples();
  if (job.attach.sync.has_servers()) {
    report.shares.assign(static_cast<std::size_t>(run_.ranks.num_computing), job.train.batch);
    report.served = run_.records.served;
    // Servers send each other nothing in a step: `served` has the bytes that are sent.
    report.engine.planned_sent_bytes = 0;
    report.engine.sent_formula_bytes = 0;
    for (RankReport& rank : report.ranks) {
      rank.planned_sent_bytes = 0;
      rank.sent_formula_bytes = 0;
    }
  }
  report.machine.threads = job.attach.threads;
  report.machine.device = run_.ranks.device->host_readable() ? "cpu" : run_.ranks.device->name();
  report.machine.states_on_device = !off_device(report.engine);
  report.origin = origin_of_process(job.config_text, TORCH_VERSION);
}

StoppedRun RunEnd::stop(int signal) {
  if (run_.job.attach.local) {  // before the save, which has the bytes of its step
    try {
      if (run_.job.checkpoint.on()) run_.model.engine->control().finish_outer_sums();
    } catch (const IoError&) {  // the save throws it again, and reports it
    }
    const SentBytes sent = run_.records.meter.merged(run_.model.engine->report().outer);
    const std::string failed = failure_of([&] { run_.records.log.add_to_last_step(sent); });
    if (!failed.empty()) ZERO_LOG(error, "metrics lack the bytes of an outer step: {}", failed);
  }
  const bool saved = save_before_stop();
  run_.say(fmt::format("stopped by signal {} after step {}{}", signal, run_.state.step,
                       saved ? ": the same command continues" : ""));
  run_.model.trained().abandon();
  const std::string unwritten = failure_of([this] { run_.records.log.finish(); });
  if (!unwritten.empty()) ZERO_LOG(error, "metrics are lost: {}", unwritten);
  return {.saved = saved, .save_failed = run_.checkpoints.last_failed() || !unwritten.empty()};
}

StoppedRun RunEnd::pause() {
  run_.checkpoints.finish(run_.model.trained());
  run_.model.trained().abandon();
  run_.records.log.finish();
  return {.saved = !run_.checkpoints.last_failed(), .save_failed = run_.checkpoints.last_failed()};
}

bool RunEnd::save_before_stop() {
  if (!run_.job.checkpoint.on()) return false;
  if (const ReplicaCheck check = run_.health.compare_replicas(run_.model.trained()); !check.same()) {
    run_.say(fmt::format("step {} is not saved: {}", run_.state.step, check.describe()));
    return false;
  }
  save_run(run_);
  run_.checkpoints.finish(run_.model.trained());
  return !run_.checkpoints.last_failed();
}

std::string where_training_is(const RunFolder& folder, const RunCheckpoints& checkpoints, bool saves,
                              bool weights_written, std::int64_t steps) {
  if (weights_written) return fmt::format("its weights are in {}", folder.files().model.string());
  if (checkpoints.step_on_disk() == steps)
    return fmt::format(
        "it is saved in {}: free space and run the same command, or write its weights elsewhere with `zero export {} "
        "-o FOLDER`",
        folder.files().checkpoints.path_of(steps).string(), folder.path().string());
  return fmt::format("no checkpoint holds its last step ({})", saves ? "the last save failed" : "checkpoint.every = 0");
}

}  // namespace zero
