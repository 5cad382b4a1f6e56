#include "app/train/run/run.h"

#include <cstdlib>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/process/clock.h"
#include "zero/comm/collectives.h"
#include "zero/comm/group.h"
#include "zero/device/open_device.h"
#include "zero/plan/pipeline/line.h"
#include "zero/torch/seam/torch_device.h"

#include "app/data/data_mark.h"
#include "app/train/tasks/model_kind.h"
#include "app/train/watch/evaluation.h"

namespace zero {
namespace {

ProgressStyle style_on(ProgressStyle style, const World& world) {
  style.silent = style.silent || world.rank() != 0;
  return style;
}

bool is_on_one_machine(const World& world) {
  return world.local_size() == world.size();
}

// Returns the launcher if it is to hold in-memory checkpoints. Threads share its socket, so they have none.
std::optional<LauncherMemory> launcher_memory(const TrainJob& job, World& world) {
  if (job.checkpoint.memory_every == 0) return std::nullopt;
  if (world.size() > 1 && world.communicator().transport() == "in_process") return std::nullopt;
  std::optional<LauncherMemory> memory = LauncherMemory::of_environment(std::getenv);
  if (!memory && !is_on_one_machine(world))
    throw ConfigError(
        "checkpoint.memory_every", fmt::format("{}", job.checkpoint.memory_every),
        fmt::format("on several machines in-memory checkpoints are held by `zero launch` on each, and these "
                    "ranks were started by {}",
                    world.source()),
        "start them with zero launch, or use 0");
  return memory;
}

std::optional<LearnedActivations> learned_activations(const TrainJob& job, const Device& device,
                                                      const SampleShape& shape, const TrainSeams& seams) {
  if (device.host_readable() || job.attach.device_memory.kind != MemoryBudget::Kind::kAuto) return std::nullopt;
  const DType dtype = job.attach.dtype.value_or(DType::kFloat32);
  return LearnedActivations(activation_work(job.model, shape, job.train.batch, dtype, gpu_name(device.name())),
                            seams.learned.empty() ? LearnedActivations::default_path() : seams.learned);
}

std::unique_ptr<Communicator> open_servers(const TrainJob& job, World& world) {
  if (!job.attach.sync.has_servers()) return nullptr;
  std::vector<int> ranks(static_cast<std::size_t>(job.attach.sync.servers));
  std::iota(ranks.begin(), ranks.end(), 0);
  return open_group(world.communicator(), ranks, "the run's servers");
}

// keep_best and patience compare evaluations: they need data for evaluations, and classes for an accuracy.
void require_watchable(const TrainJob& job, const Corpus& corpus) {
  const auto measure = watched_measure(job);
  if (!measure) return;
  const bool keeps = job.checkpoint.keep_best.has_value();
  const std::string key = keeps ? "checkpoint.keep_best" : "train.patience";
  const std::string value = keeps ? std::string(name_of(*measure)) : fmt::format("{}", job.train.patience);
  if (!corpus.validation)
    throw ConfigError(key, value, "it compares evaluations, and no data is held out for evaluations",
                      fmt::format("set data.validation, or {} {}", key, keeps ? "none" : "0"));
  const SampleShape shape = corpus.shape();
  const bool has_classes = shape.classes > 0 && (shape.context == 0 || shape.vocab > 0);
  if (*measure == BestMeasure::kAccuracy && !has_classes)
    throw ConfigError(
        key, value, fmt::format("a {} has no classes on this data, so it has no accuracy", job.model.name), "use loss");
}

// The ranks of a line compute the same samples.
SampleShares shares_of(const TrainJob& job, const Communicator& comm) {
  const Line line = line_of(comm.rank(), comm.world(), job.pipeline.pipeline);
  return {job.train.share, job.train.batch, line.data_ranks, line.data_rank};
}

// With a pipeline the ranks at the first position have all losses. With leaves every rank has the step's loss. 0: all
// ranks have losses of their own.
int averaged_in_history(const TrainJob& job, int num_computing) {
  if (job.train.leaves > 0) return 1;
  return job.pipeline.pipeline > 1 ? num_computing : 0;
}

}  // namespace

DataOptions with_context(const TrainJob& job) {
  DataOptions data = job.data;
  data.context = sample_context(job.model, data.context);
  return data;
}

// Checks that tokens and labels fit the configured model. An error names the place of the first that does not fit.
Corpus open_corpus(const TrainJob& job) {
  Corpus corpus = open_data(with_context(job));
  const SampleShape shape = corpus.shape();
  const ModelRow& row = model_row(job.model.name);
  const auto require = [&](std::string_view key, std::int64_t classes) {
    if (row.takes(key) && classes > 0 && classes < shape.classes) corpus.require_classes(classes, key);
  };
  if (shape.context > 0 && shape.vocab == 0) require("model.vocab", job.model.vocab);
  if (const std::string token = corpus.largest_token(); !token.empty() && job.model.vocab == 0 && corpus.vocab == 0)
    corpus.notes.push_back(
        fmt::format("vocabulary: {} tokens, as {}; model.vocab sets another number", shape.classes, token));
  if (shape.context == 0 && !job.model.sizes.empty()) require("model.sizes", job.model.sizes.back());
  require_watchable(job, corpus);
  return corpus;
}

Run::Run(const TrainJob& with, World& ranks, const TrainOutput& output, const TrainSeams& in_place)
    : job(with),
      world(ranks),
      seams(in_place),
      stop(output.stop),
      servers(open_servers(job, world)),
      device(seams.open_device ? seams.open_device(job.device) : open_device(job.device)),
      folder(job.run_dir),
      timeline(job.timeline, job.train.steps, world, job.run_dir),
      corpus(open_corpus(job)),
      task(make_task(job.model, corpus.shape(), job.train.seed)),
      learned(learned_activations(job, *device, corpus.shape(), seams)),
      meter(task->activations(), job.attach.threads, place_of(*device), job.attach.dtype.value_or(DType::kFloat32)),
      progress(output.out, style_on(output.style, world), job.train.steps, task->has_tokens() ? "tok/s" : "rows/s"),
      log(folder, progress,
          StepHistory(job.train.log_every, job.train.steps, averaged_in_history(job, num_computing())),
          TimeLeft(job.train.steps, {.every = job.train.eval_every, .last_alike = job.train.eval_batches == 0}),
          comm()),
      shares(shares_of(job, comm())),
      checkpoints(
          job.checkpoint, folder.files().checkpoints, launcher_memory(job, world), comm(),
          [this](const std::string& line) { say(line); },
          is_on_one_machine(world) ? RunCheckpoints::Machines::kOne : RunCheckpoints::Machines::kSeveral),
      health(job.health, job.attach.max_skipped_steps, samples_per_step(job.train, num_computing()), state, folder,
             checkpoints, log),
      mark_(zero::data_mark(corpus)) {
  task->compute_on(place_of(*device));
  checkpoints.save_only_after(job.saves);
  checkpoints.log_saves([this](std::int64_t step, const std::string& state_sums) {
    if (!state_sums.empty()) log.add(SavedMetrics{.step = step, .state_sums = state_sums});
  });
  const SyncPlan& sync = job.attach.sync;
  if (sync.has_servers())
    served = {.mode = std::string(name_of(sync.mode)),
              .servers = sync.servers,
              .workers = num_computing(),
              .staleness = sync.staleness,
              .quorum = sync.quorum};
}

std::int64_t Run::torch_bytes() const {
  return seams.held_by_torch ? seams.held_by_torch() : held_by_torch(place_of(*device));
}

void Run::learn_activations() {
  if (!learned) return;
  const std::int64_t most = all_reduce_max(comm(), torch_bytes());
  if (is_first()) learned->took(most);
}

const RunState& Run::state_to_save() {
  state.losses = log.history().losses();
  state.grad_norms = log.history().grad_norms();
  state.seconds = log.history().seconds();
  state.data = mark_;
  state.places = places;
  return state;
}

void Run::save() {
  checkpoints.begin(trained(), state_to_save(), job.config_text, SaveMode::kAsync);
}

void Run::save_in_memory() {
  checkpoints.save_in_memory(*engine, state_to_save(), job.config_text);
}

std::optional<EvaluationResult> Run::evaluate(std::int64_t step, std::int64_t batches) {
  if (!corpus.validation) return EvaluationResult{};
  if (job.attach.local) {
    const AveragedScope shared = engine->averaged();
    return evaluate_weights(step, batches, /*averaged=*/false);
  }
  const std::optional<EvaluationResult> found = evaluate_weights(step, batches, /*averaged=*/false);
  if (!found || job.attach.ema == 0) return found;
  const AveragedScope averages = trained().averaged();
  return evaluate_weights(step, batches, /*averaged=*/true) ? found : std::nullopt;
}

bool Run::evaluate_and_compare() {
  const std::optional<EvaluationResult> found = evaluate(state.step, job.train.eval_batches);
  const std::optional<BestMeasure> measure = watched_measure(job);
  if (!found || !measure) return false;
  const bool is_best =
      state.best.add(*measure, state.step, *measure == BestMeasure::kLoss ? found->loss : found->accuracy.value());
  if (ends_early())
    say(fmt::format("step {}: the run ends here, as {} (train.patience = {})", state.step, describe(state.best),
                    job.train.patience));
  return is_best;
}

bool Run::evaluation_is_missing() const {
  const std::optional<BestMeasure> measure = watched_measure(job);
  const std::int64_t every = job.train.eval_every;
  if (!measure || every == 0 || state.step == 0 || state.step % every != 0) return false;
  return state.best.evaluated != state.step || state.best.measure != *measure;
}

bool Run::ends_early() const {
  const std::optional<BestMeasure> measure = watched_measure(job);
  return job.train.patience > 0 && state.best.measure == *measure && state.best.since >= job.train.patience;
}

std::optional<EvaluationResult> Run::evaluate_weights(std::int64_t step, std::int64_t batches, bool averaged) {
  const TimedSpan span(timeline.recorder(), Activity::kEvaluate);
  const double begin = monotonic_seconds();
  int signal = 0;
  const auto must_stop = [&] {
    const int mine = stop == nullptr ? 0 : stop->pending();
    signal = static_cast<int>(-all_reduce_min(comm(), -mine));
    return signal != 0;
  };
  const auto found = evaluate_unless(must_stop, *task, *corpus.validation, shares.grid(), batches, comm(),
                                     pipeline ? &*pipeline : nullptr, /*equal_bits=*/job.train.leaves > 0);
  if (!found) {
    say(fmt::format("signal {}: the evaluation after step {} is left out", signal, step));
    return std::nullopt;
  }
  const double seconds = monotonic_seconds() - begin;
  log.add(EvaluationMetrics{.step = step,
                            .val_loss = found->loss,
                            .accuracy = found->accuracy,
                            .perplexity = found->perplexity,
                            .averaged = averaged,
                            .seconds = seconds});
  const char* const of = averaged ? "_ema" : "";
  std::string beside;
  if (found->accuracy) beside = fmt::format("  val_accuracy{} {:.2f} %", of, 100 * *found->accuracy);
  if (found->perplexity) beside = fmt::format("  val_perplexity{} {:.3f}", of, *found->perplexity);
  say(fmt::format("step {}/{}  val_loss{} {:.4f}{}{}", step, job.train.steps, of, found->loss, beside,
                  batches == 0 ? "  (the whole validation split)" : ""));
  return found;
}

}  // namespace zero
