#include "zero/train/trainer.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/version.h>

#include "zero/base/bytes.h"
#include "zero/base/clock.h"
#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/base/log.h"
#include "zero/base/process_memory.h"
#include "zero/checkpoint/same_outcome.h"
#include "zero/comm/collectives.h"
#include "zero/data/prefetcher.h"
#include "zero/engine/engine_seams.h"
#include "zero/memory/timed_calls.h"
#include "zero/models/generate.h"
#include "zero/report/engine_figures.h"
#include "zero/report/measured_steps.h"
#include "zero/report/rank_values.h"
#include "zero/report/same_configuration.h"
#include "zero/report/slow_steps.h"
#include "zero/train/activation_offload_meter.h"
#include "zero/train/evaluation.h"
#include "zero/train/limits.h"
#include "zero/train/machine_peak.h"
#include "zero/train/micro_batch_seed.h"
#include "zero/train/module_plan.h"
#include "zero/train/rate_cache.h"
#include "zero/train/run_checkpoints.h"
#include "zero/train/run_end.h"
#include "zero/train/run_folder.h"
#include "zero/train/run_health.h"
#include "zero/train/run_lock.h"
#include "zero/train/run_log.h"
#include "zero/train/save_pace.h"
#include "zero/train/weights.h"

namespace zero {
namespace {

// The medians that a prediction is compared with are of later steps.
static_assert(kWarmupSteps >= kProfileStep);

// Some sandboxes have no smaps_rollup: the report then says 0, and a run does not end for it.
std::int64_t proportional_or_zero() {
  try {
    return proportional_bytes();
  } catch (const IoError& error) {
    ZERO_LOG(info, "steady_pss is not known: {}", error.what());
    return 0;
  }
}

DataOptions with_context(const TrainJob& job) {
  DataOptions data = job.data;
  const bool tokens = data.kind == DataKind::kText || data.kind == DataKind::kTokens;
  if (tokens) data.context = sample_context(job.model, data.context);
  return data;
}

class Trainer {
 public:
  Trainer(const TrainJob& job, World& world, TrainOutput output)
      : job_(job),
        world_(world),
        stop_(output.stop),
        folder_(job.run_dir),
        timeline_(job.timeline, job.train.steps, world, job.run_dir),
        corpus_(open_data(with_context(job))),
        task_(make_task(job.model, corpus_.shape(), job.train.seed)),
        activation_offload_(task_->activations()),
        progress_(output.out, style_on(output.style, world), job.train.steps, has_tokens() ? "tok/s" : "rows/s"),
        log_(folder_, progress_, StepHistory(job.train.log_every, job.train.steps), world.communicator()),
        checkpoints_(job.checkpoint, folder_.checkpoints(), memory(job, world), world.communicator(),
                     [this](const std::string& line) { progress_.line(line); }),
        health_(job.health, job.attach.max_skipped_steps, samples_per_step(), done_, folder_, checkpoints_, log_) {}

  TrainResult run() {
    hold_folder();
    if (is_done()) {
      require_same_model();
      progress_.line(
          fmt::format("{}: done already, all {} steps; train.steps goes on with it, --overwrite begins again",
                      folder_.path().string(), job_.train.steps));
      if (is_first()) say_what_is_not_done();
      return {.was_done = true};
    }
    prepare();
    const int signal = run_steps();
    if (signal != 0) {
      const bool saved = save_before_stop();
      progress_.line(fmt::format("stopped by signal {} after step {}{}", signal, done_.step,
                                 saved ? ": the same command continues" : ""));
      engine_->abandon();
      const std::string unwritten = failure_of([this] { log_.finish(); });
      if (!unwritten.empty()) ZERO_LOG(error, "metrics are lost: {}", unwritten);
      return {.stop_signal = signal, .saved = saved, .save_failed = checkpoints_.last_failed() || !unwritten.empty()};
    }
    TrainResult result{.report = finish()};
    result.save_failed = checkpoints_.last_failed();
    engine_->abandon();
    return result;
  }

 private:
  static ProgressStyle style_on(ProgressStyle style, const World& world) {
    style.silent = style.silent || world.rank() != 0;
    return style;
  }

  // The launcher, where it is to hold copies in memory. Threads share its socket: they have none.
  static std::optional<LauncherMemory> memory(const TrainJob& job, World& world) {
    if (job.checkpoint.memory_every == 0) return std::nullopt;
    if (world.local_size() != world.size())
      throw ConfigError("checkpoint.memory_every", fmt::format("{}", job.checkpoint.memory_every),
                        "copies in memory are held by the launcher of one machine", "use 0 with several machines");
    if (world.size() > 1 && world.communicator().transport() == "in_process") return std::nullopt;
    return LauncherMemory::of_environment(std::getenv);
  }

  bool is_first() const { return world_.rank() == 0; }
  // What rank 0 alone looks at, and every rank then refuses.
  void require_on_first(const std::function<void()>& check) {
    std::string reason;
    if (is_first()) reason = failure_of(check);
    reason = broadcast_text(world_.communicator(), reason);
    if (reason.empty()) return;
    const std::size_t colon = std::min(reason.find(": "), reason.size());
    throw ConfigError(reason.substr(0, colon), "", reason.substr(std::min(colon + 2, reason.size())), "");
  }
  void hold_folder() {
    require_on_first([this] { lock_.emplace(job_.run_dir); });
  }
  // Does the folder hold this run to its end? As rank 0 sees it.
  bool is_done() {
    Communicator& comm = world_.communicator();
    begun_by_us_ = all_gather_value(comm, job_.restarted && folder_.is_of(job_.launch) ? 1 : 0).front() == 1;
    const auto overwrites = all_gather_value(comm, job_.overwrite ? 1 : 0);
    if (std::ranges::min(overwrites) != std::ranges::max(overwrites))
      throw ConfigError("--overwrite", "", "given to some ranks and not to others", "start every rank alike");
    if (job_.overwrite && !begun_by_us_) return false;
    saved_steps_ = checkpoints_.steps();
    const bool cut_short =
        is_first() && !resumes() && job_.checkpoint.on() && !begun_by_us_ && folder_.was_cut_short(job_.config_text);
    cut_short_ = all_gather_value(comm, cut_short ? 1 : 0).front() == 1;
    const bool done = (begun_by_us_ || resumes()) && folder_.finished_steps() >= job_.train.steps;
    return all_gather_value(comm, done ? 1 : 0).front() == 1;
  }
  // The keys of this configuration that are not those of the run which is done.
  void say_what_is_not_done() {
    std::string changed;
    const std::string unknown =
        failure_of([&] { changed = changed_keys(read_file(folder_.config()), job_.config_text); });
    if (unknown.empty() && !changed.empty()) progress_.line(fmt::format("  not done with:{}", changed));
  }
  bool resumes() const { return !saved_steps_.empty(); }
  std::int64_t samples_per_step() const { return job_.train.batch * job_.train.accumulate * world_.size(); }
  BatchGrid grid() const { return {.batch = job_.train.batch, .world = world_.size(), .rank = world_.rank()}; }
  bool has_tokens() const { return corpus_.shape().context > 0; }
  double tokens_per_step() const { return static_cast<double>(samples_per_step() * task_->tokens_per_sample()); }

  // What must be right before anything is written, then the folder, then the engine.
  void prepare() {
    if (job_.model.dropout > 0 && world_.size() > 1 && world_.communicator().transport() == "in_process") {
      throw ConfigError("model.dropout", fmt::format("{}", job_.model.dropout),
                        "in_process ranks are threads that share one random generator",
                        "use comm.transport shared_memory, or dropout 0");
    }
    require_possible(job_.health, job_.checkpoint.on());
    if (resumes()) require_same_model();
    if (!resumes()) folder_.require_free(job_.overwrite || begun_by_us_ || cut_short_);
    if (!resumes() && (cut_short_ || begun_by_us_))
      progress_.line("a run of this configuration ended here before its first checkpoint: it begins again");
    require_on_first([this] { folder_.require_writable(); });
    if (job_.checkpoint.memory_every > 0 && !checkpoints_.has_launcher_memory())
      progress_.line("note: no copies are kept in memory: these ranks were not started by zero launch or -n");
    std::optional<InitialWeights> init;
    if (!job_.model.init.empty() && !resumes()) init.emplace(task_->module(), job_.model.init);
    require_same_configuration(world_.communicator(), job_.config_hash, job_.config_text);
    ActivationStore* const activations = task_->activations();
    if (activations != nullptr) {
      activations->record(timeline_.recorder());
      activations->open();
    }
    progress_.line(
        fmt::format("ranks: {} ({}, {})", world_.size(), world_.source(), world_.communicator().transport()));
    say_where_activations_lie();
    const std::string plan = print_plan();
    AttachOptions options = with_rates(job_.attach);
    options.timeline = timeline_.recorder();
    if (init) options.weights = init->source();
    options.max_skipped_steps = std::numeric_limits<int>::max();  // health_ counts, and ends a run that has told all
    options.awaits_load = resumes();
    const std::int64_t bytes_to_save = checkpoint_bytes(task_->module(), job_.attach);
    expect_saves(bytes_to_save);
    engine_.emplace(attach(task_->module(), world_, std::move(options)));
    init.reset();
    if (activations != nullptr && engine_->control().link() != nullptr)
      activations->share_link(*engine_->control().link());
    // After the engine, which refuses what memory cannot hold, and has its own on the same disk, perhaps.
    RunCheckpoints::require_room(job_.checkpoint, folder_.checkpoints().path(), bytes_to_save,
                                 [this](const std::string& line) { progress_.line(line); });
    say_where_states_lie();
    if (resumes()) resume();
    checkpoints_.expect_room_to_copy(*engine_, bytes_to_save / world_.size());
    if (!is_first()) return;
    // The engine probes where it chooses a placement, too.
    const TierRates rates = engine_->report().rates;
    if (!knows_rates_ && rates.update_numel > 0) RateCache().keep(machine_, rates);
    resumes() ? folder_.reopen(done_.step, {.evaluation = done_.step == job_.train.steps, .rewinds = true})
              : folder_.create(job_.launch);
    weights_file_ = open_weights(*engine_, task_->module(), folder_.model());
    timeline_.remove_old();
    write_file(folder_.config(), job_.config_text);
    write_file(folder_.plan(), plan);
    log_.begin();
  }

  // The states are the checkpoint's, everything else is the configuration's; where that has changed, it is said.
  void resume() {
    const Resumed resumed = health_.take_newest_checkpoint(*engine_);
    if (done_.step > job_.train.steps)
      throw ConfigError("train.steps", fmt::format("{}", job_.train.steps),
                        fmt::format("this run has come to step {} already", done_.step),
                        "use more steps, or begin again with --overwrite");
    last_report_ = engine_->report();
    progress_.line(fmt::format("continuing after step {} of {}: {}, saved by {} ranks", done_.step, job_.train.steps,
                               resumed.place, resumed.manifest.files.size()));
    progress_.line(fmt::format("  from the checkpoint: {}; {} updates, {} samples drawn",
                               fmt::join(resumed.manifest.states, ", "), resumed.manifest.steps, done_.samples));
    const std::string changed = changed_keys(resumed.manifest.config, job_.config_text);
    progress_.line(fmt::format("  from the configuration: everything else, {}{}",
                               changed.empty() ? "as it was then" : "of which changed:", changed));
  }

  // A checkpoint has the states of one model: another is another run. Said in the configuration's words, before any
  // state is read; what a configuration does not tell (a vocabulary that is the data's), loading does.
  void require_same_model() {
    std::string changed;
    if (is_first())
      static_cast<void>(failure_of([&] { changed = changed_model(read_file(folder_.config()), job_.config_text); }));
    changed = broadcast_text(world_.communicator(), changed);
    if (changed.empty()) return;
    throw ConfigError("run.dir", folder_.path().string(), fmt::format("holds a run of another model:{}", changed),
                      "name another folder with --run.dir, or begin again with --overwrite");
  }

  // Whether training may have to wait for saves, said while that can be changed.
  void expect_saves(std::int64_t checkpoint_bytes) {
    if (!job_.checkpoint.on()) return;
    const double save_seconds = estimate_save_seconds(world_.communicator(), folder_.path(), checkpoint_bytes);
    if (save_seconds == 0) return;
    double step_seconds = 0;  // at least
    if (job_.checkpoint.every_steps > 0) {
      const double flops = task_->flops_per_sample() * static_cast<double>(job_.train.batch * job_.train.accumulate);
      step_seconds = flops / probe_matmul_flops();
    }
    const std::string note = pace_note(job_.checkpoint, checkpoint_bytes, save_seconds, step_seconds);
    if (!note.empty()) progress_.line(note);
  }

  // Where the run stands; every step must have been exchanged.
  const RunState& state() {
    done_.losses = log_.history().losses();
    done_.grad_norms = log_.history().grad_norms();
    done_.seconds = log_.history().seconds();
    return done_;
  }

  bool save_before_stop() {
    if (!job_.checkpoint.on()) return false;
    if (const ReplicaCheck check = health_.compare_replicas(*engine_); !check.same()) {
      progress_.line(fmt::format("step {} is not saved: {}", done_.step, check.describe()));
      return false;
    }
    checkpoints_.begin(*engine_, state(), job_.config_text, SaveMode::kAsync);
    checkpoints_.finish();
    return !checkpoints_.last_failed();
  }

  // What the disk manages is wanted wherever states may lie there: for the choice, or to tell what was to be expected.
  AttachOptions with_rates(AttachOptions options) {
    OffloadOptions& offload = options.offload;
    EngineSeams& seams = change_seams(offload);
    seams.probes = !offload.disk.empty() || !offload.fractions.on_device();
    machine_ = machine_identity(offload.disk, world_.local_size(), options.threads, name_of(options.optimizer),
                                TimedCalls(FileCalls::kernel(), offload.disk_timeout));
    if (!job_.probe_again) seams.rates = RateCache().find(machine_, !offload.disk.empty()).value_or(TierRates{});
    seams.rates.link_up = seams.rates.link_down = offload.link_bytes_per_second;
    knows_rates_ = seams.rates.update_numel > 0;
    return options;
  }

  // Before states are placed: what a budget has left for them is less by so much.
  void say_where_activations_lie() {
    if (!job_.model.activation_offload || job_.model.activation_offload->expected_bytes == 0) return;
    const ActivationOffloadOptions& activation_offload = *job_.model.activation_offload;
    progress_.line(
        fmt::format("activations: {} a rank offloaded on {}{}", format_bytes(activation_offload.expected_bytes),
                    activation_offload.tier == Tier::kDisk ? "disk" : "the host",
                    activation_offload.most_bytes > 0 ? ", taken off its budget before states are placed" : ""));
  }

  // What limits the run, while a placement can still be changed.
  void say_where_states_lie() {
    const EngineReport report = engine_->report();
    if (!off_device(report)) return;
    progress_.line(first_limits(report));
    const std::string why = why_states_stay(report, job_.attach.offload);
    if (!why.empty()) progress_.line(why);
  }

  // What is predicted from here on is compared with the steps that come.
  void predict() {
    predicted_ = last_report_.predicted;
    slow_.expect(predicted_.total());
    replans_then_ = last_report_.replans;
    if (off_device(last_report_)) progress_.line(learned_limits(last_report_, done_.step));
  }

  std::string print_plan() {
    const TrainingPlan plan = plan_of(job_.model.name, task_->module(), world_.size(), job_.attach);
    std::string table = plan_table(plan, std::array{job_.attach.stage});
    progress_.text(table);
    return table;
  }

  // Returns the signal that ended it, or 0.
  int run_steps() {
    if (job_.health.check_replicas > 0 && (world_.size() == 1 || job_.attach.stage == 3))
      progress_.line("health.check_replicas: no rank holds what another holds, too; nothing is compared");
    if (job_.health.rewinds() && !resumes())  // there is always one to go back to
      checkpoints_.begin(*engine_, state(), job_.config_text, SaveMode::kAsync);
    first_ = done_.step;
    Outcome outcome;
    while (outcome.signal == 0 && done_.step < job_.train.steps) outcome = run_until_rewound();
    return outcome.signal;
  }

  struct Outcome {
    int signal = 0;        // that ends the run
    bool rewound = false;  // it is at an earlier step, and has other samples before it
  };

  Outcome run_until_rewound() {
    const StepOptions& o = job_.train;
    const TrainingBatches batches(*corpus_.train, job_.data.order, o.seed, grid(), done_.samples);
    Prefetcher prefetcher(0, (o.steps - done_.step) * o.accumulate,
                          [&](std::int64_t i, Batch& batch) { batches.fill(i, batch); });
    Outcome outcome;
    while (outcome.signal == 0 && !outcome.rewound && done_.step < o.steps) {
      timeline_.begin_step(num_run_);
      log_.add(run_step(done_.step, prefetcher));
      ++done_.step;
      done_.samples += samples_per_step();
      if (timeline_.end_step(num_run_))
        progress_.line(fmt::format("timeline: {} (open it at https://ui.perfetto.dev)", timeline_.path().string()));
      ++num_run_;
      if (num_run_ == kProfileStep) predict();
      if (num_run_ == 1) mine_.startup_s = boot_seconds() - process_start_seconds();
      if (num_run_ == std::min<std::int64_t>(o.steps - first_, kWarmupSteps)) {
        mine_.steady_rss = resident_bytes();
        mine_.steady_pss = proportional_or_zero();
      }
      if (slow_.count(last_seconds_)) progress_.line(slow_.note(done_.step, machine_load(), job_.attach.threads));
      outcome.rewound = health_.judge(*engine_, last_step_);
      if (!outcome.rewound) outcome = after_step(done_.step);
    }
    return outcome;
  }

  // What is done between steps, at the same ones on every rank.
  Outcome after_step(std::int64_t step) {
    const StepOptions& o = job_.train;
    const std::int64_t every = job_.health.check_replicas;
    if (every > 0 && (step % every == 0 || step == o.steps) && health_.judge_replicas(*engine_))
      return {.rewound = true};
    const bool exchanged = log_.exchange_due();
    int signal = exchanged ? exchange() : 0;
    if (o.eval_every > 0 && step % o.eval_every == 0 && step < o.steps) evaluate_after(step, o.eval_batches);
    checkpoints_.poll();
    const bool to_disk = signal == 0 && checkpoints_.due(step, o.steps, exchanged);
    const bool to_memory = signal == 0 && checkpoints_.due_in_memory(step);
    if (!to_disk && !to_memory) return {.signal = signal};
    if (!exchanged) signal = exchange();
    if (signal != 0) return {.signal = signal};  // the end saves
    if (health_.judge_replicas(*engine_)) return {.rewound = true};
    if (to_memory) checkpoints_.copy(*engine_, state(), job_.config_text);
    if (to_disk) checkpoints_.begin(*engine_, state(), job_.config_text, SaveMode::kAsync);
    return {};
  }

  StepMetrics run_step(std::int64_t step, Prefetcher& prefetcher) {
    StepMetrics metrics{.step = step + 1, .lr = lr_at(job_.schedule, step), .tokens = tokens_per_step()};
    metrics.has_tokens = has_tokens();
    metrics.samples_so_far = done_.samples + samples_per_step();
    metrics.tokens_so_far = static_cast<double>(metrics.samples_so_far * task_->tokens_per_sample());
    const double begin = monotonic_seconds();
    for (std::int64_t micro = 0; micro < job_.train.accumulate; ++micro)
      run_micro_batch(step, micro, next_batch(prefetcher), metrics);
    last_step_ = take_step(metrics.lr, health_.limits(metrics.loss));
    metrics.seconds = last_seconds_ = monotonic_seconds() - begin;
    metrics.time = unix_seconds();
    metrics.grad_norm = last_step_.grad_norm;
    metrics.phases = engine_->control().take_phase_seconds();
    last_report_ = engine_->report();
    activation_offload_.end_step();
    metrics.memory = last_report_.memory;
    metrics.sent_bytes = last_report_.sent_bytes_per_step;
    const LinkTraffic link = last_report_.link_per_step + activation_offload_.link();
    if (last_report_.disk_per_step.busy_seconds > 0 || link.busy_seconds > 0 || off_device(last_report_))
      metrics.transfers = {.disk = last_report_.disk_per_step, .link = link};
    profile_.add(metrics, last_report_.disk_per_step.waited_seconds + link.waited_seconds +
                              activation_offload_.disk().waited_seconds);
    return metrics;
  }

  const Batch& next_batch(Prefetcher& prefetcher) {
    const TimedSpan waiting(timeline_.recorder(), Activity::kWaitData);
    return prefetcher.next();
  }

  StepReport take_step(double lr, const StepLimits& limits) {
    const TimedSpan span(timeline_.recorder(), Activity::kStep);
    return engine_->step(lr, limits);
  }

  void run_micro_batch(std::int64_t step, std::int64_t micro, const Batch& batch, StepMetrics& metrics) {
    const auto share = static_cast<double>(job_.train.accumulate);
    if (job_.model.dropout > 0) at::manual_seed(micro_batch_seed(job_.train.seed, step, micro, world_.rank()));
    const double begin = monotonic_seconds();
    TimedSpan span(timeline_.recorder(), Activity::kForward);
    const auto loss = task_->loss(batch);
    const double middle = monotonic_seconds();
    span.end();
    span = TimedSpan(timeline_.recorder(), Activity::kBackward);
    (share == 1 ? loss : loss / share).backward();
    metrics.forward += middle - begin;
    metrics.backward += monotonic_seconds() - middle;
    metrics.loss += loss.item<double>() / share;
  }

  int exchange() { return log_.exchange(stop_ != nullptr ? stop_->pending() : 0); }

  double evaluate_after(std::int64_t step, std::int64_t batches) {
    if (!corpus_.validation) return 0;
    const TimedSpan span(timeline_.recorder(), Activity::kEvaluate);
    const double begin = monotonic_seconds();
    const double loss = evaluate(*task_, *corpus_.validation, grid(), batches, world_.communicator());
    const double seconds = monotonic_seconds() - begin;
    log_.add(EvaluationMetrics{.step = step, .val_loss = loss, .seconds = seconds});
    progress_.line(fmt::format("step {}/{}  val_loss {:.4f}{}", step, job_.train.steps, loss,
                               batches == 0 ? "  (the whole validation split)" : ""));
    return loss;
  }

  // What goes wrong after the last step says where the training that is over can be found.
  RunReport finish() {
    try {
      return end();
    } catch (const IoError& error) {
      if (!is_first()) throw;
      throw error.within(fmt::format(
          "training is over, all {} steps; {}", job_.train.steps,
          where_training_is(folder_, checkpoints_, job_.checkpoint.on(), weights_written_, job_.train.steps)));
    }
  }

  RunReport end() {
    RunReport report;
    engine_->control().finish_updates();
    checkpoints_.finish();
    report.has_validation = corpus_.validation != nullptr;
    report.val_loss = evaluate_after(job_.train.steps, 0);
    write_sample();
    report.parameters_sha256 = save_weights(*engine_, task_->module(), std::move(weights_file_));
    weights_written_ = true;
    if (is_first() && !describe_weights(folder_, *task_, job_.attach.dtype.value_or(DType::kFloat32)))
      progress_.line("note: config.json in the run folder is no model's, and stays as it is");
    fill(report);
    log_.finish();
    if (is_first()) write_file(folder_.report(), to_json(report));
    progress_.text(fmt::format("done: {}\n{}", folder_.path().string(), summary(report)));
    return report;
  }

  void write_sample() {
    Gpt2* model = task_->language_model();
    if (job_.train.sample == 0 || model == nullptr) return;
    const bool bytes = job_.data.kind == DataKind::kText;
    progress_.line("sample:");
    generate(*model, {}, {.tokens = job_.train.sample, .seed = job_.train.seed}, [&](std::int64_t token) {
      progress_.text(bytes ? std::string(1, static_cast<char>(token)) : fmt::format("{} ", token));
    });
    progress_.line("");
  }

  void fill(RunReport& report) {
    mine_.peak_rss = peak_resident_bytes();
    add_figures(last_report_, mine_);
    mine_.disk_per_step = profile_.transfers().disk;
    mine_.link_per_step = profile_.transfers().link;
    activation_offload_.add_to(mine_);
    mine_.peak_flops = probe_matmul_flops();
    for (const auto& rank : gather_ranks<RankReport>(world_.communicator(), std::span<const RankReport>(&mine_, 1))) {
      report.ranks.push_back(rank.front());
    }
    add_figures(last_report_, report);
    report.model = job_.model.name;
    report.world = world_.size();
    report.stage = job_.attach.stage;
    report.dtype = name_of(job_.attach.dtype.value_or(DType::kFloat32));
    report.steps = job_.train.steps;
    report.losses = log_.history().losses();
    report.grad_norms = log_.history().grad_norms();
    report.step_seconds = log_.history().seconds();
    report.tokens_per_step = tokens_per_step();
    report.has_tokens = has_tokens();
    report.origin = origin_of_process(job_.config_text, TORCH_VERSION);
    report.flops_per_step =
        task_->flops_per_sample() * tokens_per_step() / static_cast<double>(task_->tokens_per_sample());
    report.rewinds = done_.rewinds;
    report.spikes = done_.spikes;
    report.profile = profile_.median();
    report.uses = last_report_.profile;
    if (profile_.past_warmup() && last_report_.replans == replans_then_) report.predicted = predicted_;
    if (job_.model.activation_offload) {
      report.parked_on = name_of(job_.model.activation_offload->tier);
      if (report.disk.empty()) report.disk = task_->activations()->report().activation_offload.disk_kind;
    }
    report.ranks_source = world_.source();
    report.threads = job_.attach.threads;
  }

  const TrainJob& job_;
  World& world_;
  const StopSignal* stop_;
  std::optional<RunLock> lock_;  // rank 0's
  RunFolder folder_;
  StepTimeline timeline_;
  Corpus corpus_;
  std::unique_ptr<Task> task_;
  ActivationOffloadMeter activation_offload_;
  Progress progress_;
  RunLog log_;
  StepReport last_step_;
  double last_seconds_ = 0;
  SlowSteps slow_;
  std::int64_t first_ = 0;    // the step that this process began with
  std::int64_t num_run_ = 0;  // steps that it has done, those that were taken back too
  RankReport mine_;
  MeasuredSteps profile_;
  PredictedStep predicted_;  // after kProfileStep steps
  std::int64_t replans_then_ = 0;
  std::string machine_;  // identity, for the rates
  bool knows_rates_ = false;
  EngineReport last_report_;
  bool begun_by_us_ = false;               // by an earlier attempt of the launch that this one is of
  bool cut_short_ = false;                 // before its first checkpoint, an earlier run of this configuration
  std::vector<std::int64_t> saved_steps_;  // by checkpoints that are there when the run begins, the newest first
  RunState done_;                          // its series are those of the last save: log_ has them
  std::optional<Attachment> engine_;       // gone before the module it is attached to
  std::unique_ptr<SafetensorsWriter> weights_file_;  // rank 0's, for the end
  bool weights_written_ = false;
  RunCheckpoints checkpoints_;  // after it: a save goes before the engine that it is of
  RunHealth health_;
};

}  // namespace

TrainResult train(const TrainJob& job, World& world, TrainOutput output) {
  at::set_num_threads(job.attach.threads);
  world.keep_flight_in(RunFolder(job.run_dir).flight());
  try {
    return Trainer(job, world, output).run();
  } catch (const ConfigError&) {
    throw;  // before anything began, and said by itself
  } catch (const std::exception& error) {
    world.write_flight(error);
    throw;
  }
}

}  // namespace zero
