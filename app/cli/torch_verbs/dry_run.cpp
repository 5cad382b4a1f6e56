#include "app/cli/torch_verbs/dry_run.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <ATen/Parallel.h>

#include "zero/base/process/machine.h"
#include "zero/base/text/bytes.h"

#include "app/cli/torch_verbs/job.h"
#include "app/config/rules/fit_to_world.h"
#include "app/report/screen/wrapped.h"
#include "app/train/tasks/model_kind.h"
#include "app/train/weights/first_weights.h"
#include "app/train/weights/run_words.h"

namespace zero::cli {
namespace {

constexpr double kMostSeconds = 10;  // a forward and backward pass that takes longer is not tried

DType type_of(const AttachOptions& attach) {
  return attach.dtype.value_or(DType::kFloat32);
}

// Returns why the total time is not known; "" if it is.
std::string why_unknown(const TrainingPlan& plan) {
  if (plan.workers > 0) return "how long workers wait for servers is not predicted";
  if (!plan.predicted) return "no step is predicted";
  if (!plan.without_disk.empty()) return fmt::format("the disk's rate is not, {}", plan.without_disk);
  return "";
}

// Returns the least seconds of a micro-batch on a rank that does not share its cores.
double least_pass_seconds(const TrainingPlan& plan, const StepOptions& train) {
  const StepProfile& step = plan.computation.step;
  return (step.forward_seconds + step.backward_seconds) / static_cast<double>(train.accumulate) /
         plan.computation.crowd;
}

std::string why_not_timed(const TrainingPlan& plan, const AttachOptions& attach, const StepOptions& train) {
  if (!plan.refused.empty()) return "the run would be refused";
  const std::int64_t needed =
      trial_state_bytes(num_parameters(plan.specs), type_of(attach)) + plan.machine->activation_bytes;
  if (const std::int64_t room = available_memory() / 2; needed > room)
    return fmt::format("a trial needs {}, and half of the free memory is {}", format_bytes(needed), format_bytes(room));
  if (const double least = least_pass_seconds(plan, train); least > kMostSeconds)
    return fmt::format("a micro-batch takes {} at least", format_seconds(least));
  return "";
}

PassSeconds timed(const Config& config, const Corpus& corpus, const AttachOptions& attach) {
  ModelOptions model = model_options(config);
  model.init.clear();                // the weights do not change the time
  model.activation_offload.reset();  // the trial writes nothing
  at::set_num_threads(attach.threads);
  const auto task = make_task(model, corpus.shape(), config.train.seed);
  return time_passes(*task, *corpus.train,
                     {.samples = most_samples(config.train), .dtype = type_of(attach), .threads = attach.threads});
}

DryRun with_notes(const CheckedRun& run, std::string why_unknown, int world) {
  DryRun found{.why_unknown = std::move(why_unknown), .world = world, .outlook = run.outlook};
  if (run.corpus && !found.outlook.is_done) found.notes = run.corpus->notes;
  found.notes.insert(found.notes.end(), run.notes.begin(), run.notes.end());
  return found;
}

std::string time_text(const DryRun& dry_run) {
  if (!dry_run.why_unknown.empty()) return fmt::format("time: not known in all: {}\n", dry_run.why_unknown);
  const std::string passes =
      dry_run.passes.passes > 0
          ? fmt::format("A micro-batch was tried here: forward {}, backward {} (median of {})",
                        format_seconds(dry_run.passes.forward), format_seconds(dry_run.passes.backward),
                        dry_run.passes.passes)
          : fmt::format("This is the shortest possible time, of matrix products only. Passes were not tried: {}",
                        dry_run.why_not_timed);
  return fmt::format("time: {}\n", run_time_text(dry_run.need)) +
         wrapped(fmt::format("{}. Not counted: start, data, checkpoints{}", passes,
                             dry_run.world > 1 ? ", and what ranks send to each other" : ""),
                 2);
}

nlohmann::ordered_json time_json(const DryRun& dry_run) {
  if (!dry_run.why_unknown.empty()) return {{"why_unknown", dry_run.why_unknown}};
  const RunTime time = run_time(dry_run.need);
  nlohmann::ordered_json json{{"seconds", time.total_seconds},   {"least_seconds", dry_run.least_seconds},
                              {"steps", dry_run.need.steps},     {"step_seconds", dry_run.need.step_seconds},
                              {"evaluations", time.evaluations}, {"evaluation_seconds", time.evaluation_seconds}};
  if (!dry_run.why_not_timed.empty()) {
    json["why_not_timed"] = dry_run.why_not_timed;
    return json;
  }
  json["micro_batch"] = {{"forward_seconds", dry_run.passes.forward},
                         {"backward_seconds", dry_run.passes.backward},
                         {"passes", dry_run.passes.passes}};
  return json;
}

}  // namespace

CheckedRun check_run(Config config, int local_ranks, std::optional<std::int64_t> steps, bool overwrites) {
  config.train.steps = steps.value_or(config.train.steps);
  CheckedRun run{.job = make_job(config, local_ranks), .outlook = {}, .corpus = std::nullopt, .notes = {}};
  run.job.overwrite = overwrites;
  run.outlook = look_ahead(run.job);
  if (learns_words(run.job.data)) {
    FoundWords found = find_words(run.job);
    run.job.data.known_words = std::move(found.words);
    if (!found.note.empty()) run.notes.push_back("note: " + found.note);
  }
  run.corpus = corpus_here(config, run.job);
  if (!run.corpus || run.job.model.init.empty() || run.outlook.step > 0) return run;
  const auto task = make_task(run.job.model, run.corpus->shape(), run.job.train.seed);
  const std::vector<std::string> notes = open_first_weights(run.job, *run.corpus, *task)->notes();
  run.notes.insert(run.notes.end(), notes.begin(), notes.end());
  return run;
}

DryRun dry_run_of_pipeline(const CheckedRun& run, int world) {
  return with_notes(run, "the updates and messages of a pipeline are not predicted", world);
}

DryRun dry_run_of(const TrainingPlan& plan, const Config& config, const CheckedRun& run) {
  const StepOptions& train = config.train;
  const std::optional<Corpus>& corpus = run.corpus;
  DryRun found = with_notes(run, why_unknown(plan), plan.world);
  if (found.outlook.is_done || !found.why_unknown.empty()) return found;
  const std::int64_t held_out = corpus && corpus->validation ? corpus->validation->pass_size() : 0;
  const std::int64_t together = train.batch * plan.world;
  const auto accumulate = static_cast<double>(train.accumulate);
  // With leaves, the key counts the batches of all ranks together.
  const std::int64_t eval_batches =
      train.leaves > 0 ? (train.eval_batches + plan.world - 1) / plan.world : train.eval_batches;
  found.need = {.first_step = found.outlook.step,
                .steps = run.job.train.steps - found.outlook.step,
                .step_seconds = plan.predicted->total(),
                .batch_seconds = plan.computation.step.forward_seconds / accumulate,
                .eval_every = train.eval_every,
                .eval_batches = eval_batches,
                .split_batches = (held_out + together - 1) / together,
                .passes = run.job.attach.ema > 0 ? 2 : 1,
                .compares = watched_measure(run.job).has_value()};
  found.least_seconds = run_time(found.need).total_seconds;
  const AttachOptions attach = attach_options(config, plan.machine->ranks);
  found.why_not_timed = corpus ? why_not_timed(plan, attach, train) : "the data is not here";
  if (!found.why_not_timed.empty()) return found;
  found.passes = timed(config, *corpus, attach);
  const double crowd = plan.computation.crowd;
  const auto phase = [&](StepPhase which, double micro_batch) {
    return std::max(plan.predicted->seconds(which), micro_batch * crowd * accumulate);
  };
  found.need.step_seconds = phase(StepPhase::kForward, found.passes.forward) +
                            phase(StepPhase::kBackward, found.passes.backward) +
                            plan.predicted->seconds(StepPhase::kUpdate);
  found.need.batch_seconds = std::max(found.need.batch_seconds, found.passes.forward * crowd);
  return found;
}

std::string dry_run_text(const DryRun& dry_run) {
  const std::string& line = dry_run.outlook.line;
  std::string text = line.empty() ? "" : wrapped("run: " + line, 0);
  if (!dry_run.outlook.is_done) text += time_text(dry_run);
  for (const std::string& note : dry_run.notes) text += wrapped(note, 0);
  return text;
}

nlohmann::ordered_json dry_run_json(const DryRun& dry_run) {
  nlohmann::ordered_json json{{"done", dry_run.outlook.is_done}, {"step", dry_run.outlook.step}};
  if (!dry_run.notes.empty()) json["notes"] = dry_run.notes;
  if (dry_run.outlook.is_done) return json;
  json.update(time_json(dry_run));
  return json;
}

}  // namespace zero::cli
