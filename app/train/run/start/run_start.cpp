#include "app/train/run/start/run_start.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/text/bytes.h"
#include "zero/comm/collectives.h"

#include "app/data/data_mark.h"
#include "app/report/plan/plan_table.h"
#include "app/report/same_configuration.h"
#include "app/train/folder/computing_place.h"
#include "app/train/run/parts/run_evaluation.h"
#include "app/train/run/start/run_engine.h"
#include "app/train/run/start/run_pipeline.h"
#include "app/train/run/trials/operator_trial.h"
#include "app/train/weights/first_weights.h"
#include "app/train/weights/model_files.h"
#include "app/train/weights/module_plan.h"
#include "app/train/weights/weights.h"

namespace zero {
namespace {

void require_own_generators(const TrainJob& job, World& world) {
  if (job.model.dropout == 0 || world.size() == 1 || world.communicator().transport() != "in_process") return;
  throw ConfigError("model.dropout", fmt::format("{}", job.model.dropout),
                    "in_process ranks are threads that share one random generator",
                    "use comm.transport shared_memory, or dropout 0");
}

void open_activations(Run& run) {
  ActivationStore* const activations = run.model.task->activations();
  if (activations == nullptr) return;
  activations->record(run.timeline.recorder());
  activations->open();
}

// Called before states are placed, because activations reduce the budget that is left for them.
void report_activations(Run& run) {
  const auto& offload = run.job.model.activation_offload;
  if (!offload || offload->expected_bytes == 0) return;
  run.say(fmt::format("activations: {} a rank offloaded {}{}", format_bytes(offload->expected_bytes),
                      facts_of(offload->tier).phrase,
                      offload->most_bytes > 0 ? ", taken off its budget before states are placed" : ""));
}

std::string print_plan(Run& run) {
  const TrainJob& job = run.job;
  const TrainingPlan plan = plan_of(job.model.name, run.model.task->module(), run.ranks.world.size(), job.attach);
  std::string table = plan_table(plan, std::array{job.attach.stage});
  run.records.progress.text(table);
  return table;
}

// Resumes: states come from the checkpoint, everything else from the configuration. Reports changes of the
// configuration.
void resume(Run& run) {
  const TrainJob& job = run.job;
  const Resumed resumed = run.health.take_newest_checkpoint(run.model.trained());
  const std::int64_t step = run.state.step;
  require_steps_left(job, step);
  run.records.meter.start_at(step, run.state.sent_by(run.ranks.comm().rank()));
  run.records.served.run = run.state.served;
  run.say(fmt::format("continuing after step {} of {}: {}, saved by {}", step, job.train.steps, resumed.place,
                      format_count(static_cast<std::int64_t>(resumed.manifest.files.size()), "rank")));
  run.say(fmt::format("  from the checkpoint: {}; {} updates, {} samples drawn",
                      fmt::join(resumed.manifest.states, ", "), resumed.manifest.steps, run.state.samples));
  const std::string changed = changed_keys(resumed.manifest.config, job.config_text);
  run.say(fmt::format("  from the configuration: everything else, {}{}",
                      changed.empty() ? "as it was then" : "of which changed:", changed));
  if (const std::string data = changed_data(resumed.state.data, run.data.mark); !data.empty())
    run.say("  the samples are different: " + data);
  if (const std::string places = changed_places(resumed.state.places, run.ranks.places); !places.empty())
    run.say("  its last bits may differ from an undisturbed run: it computed with " + places);
}

// Collective over the ranks that hold the run.
std::string places_of(const Run& run) {
  std::vector<ComputingPlace> places = run.job.places;
  if (places.empty())
    for (const std::string& text : all_gather_text(run.ranks.comm(), to_text(computing_place(run.job.attach.threads))))
      places.push_back(place_of_text(text).value());
  return text_of_places(std::move(places));
}

// Called on rank 0.
RunWeights write_folder(Run& run, const RunOpening& opening, const std::string& plan) {
  const RunFolder& folder = run.folder;
  const bool resumes = opening.resumes();
  if (!resumes && folder.holds_run()) {
    remove_model_files(run.job, folder.path());
    // A run with servers writes the log anew, and a replay may read it before.
    if (!run.job.attach.sync.has_servers()) folder.remove_pushes();
  }
  const bool evaluates_again = run.state.step == run.job.train.steps || evaluation_is_missing(run) || ends_early(run);
  resumes ? folder.reopen(run.state.step, {.evaluation = evaluates_again, .rewinds = true})
          : folder.create(opening.launches());
  RunWeights weights{.model = open_weights(run.model.trained(), run.model.task->module(), folder.files().model),
                     .average = nullptr};
  if (run.job.attach.ema > 0)
    weights.average = open_weights(run.model.trained(), run.model.task->module(), folder.files().averaged_model,
                                   "the average of the weights");
  run.timeline.remove_old();
  write_file(folder.files().config, run.job.config_text);
  write_file(folder.files().plan, plan);
  const std::string preprocessing = run.data.corpus.train ? run.data.corpus.train->preprocessing() : "";
  if (!preprocessing.empty()) write_file(folder.files().preprocessing, preprocessing);
  const ModelFiles files = resumes ? ModelFiles::kResumed : ModelFiles::kNew;
  for (const std::string& note : write_model_files(run.job, *run.model.task, run.data.corpus, folder.path(), files))
    run.say(note);
  run.records.log.begin();
  if (run.job.tensorboard) run.records.log.draw({.after_step = run.state.step, .config = run.job.config_text});
  return weights;
}

}  // namespace

RunWeights start_run(Run& run, const RunOpening& opening) {
  const TrainJob& job = run.job;
  Communicator& comm = run.ranks.world.communicator();
  const int num_holders = run.ranks.comm().world();
  require_own_generators(job, run.ranks.world);
  require_possible(job.health, job.checkpoint.on());
  opening.require_may_start([&run](const std::string& line) { run.say(line); });
  if (opening.resumes()) opening.require_same_classes(run.data.corpus.class_names);
  if (job.checkpoint.memory_every > 0 && !run.checkpoints.has_launcher_memory())
    run.say("note: there will be no in-memory checkpoints: these ranks were not started by zero launch or -n");
  std::optional<InitialWeights> init =
      opening.resumes() ? std::optional<InitialWeights>() : open_first_weights(job, run.data.corpus, *run.model.task);
  require_same_configuration(comm, job.config_hash, job.config_text);
  open_activations(run);
  const std::string roles =
      job.attach.sync.has_servers() ? fmt::format(", {} and {}", format_count(num_holders, "server"),
                                                  format_count(run.ranks.num_computing, "worker"))
      : run.job.pipeline.pipeline > 1
          ? fmt::format(", {} of {}", format_count(run.ranks.num_computing, "line"), run.job.pipeline.pipeline)
          : "";
  run.say(
      fmt::format("ranks: {} ({}, {}{})", run.ranks.world.size(), run.ranks.world.source(), comm.transport(), roles));
  if (!job.group_line.empty()) run.say(job.group_line);
  if (!job.replay_line.empty()) run.say(job.replay_line);
  for (const std::string& note : job.notes) run.say("note: " + note);
  for (const std::string& note : run.data.corpus.notes) run.say(note);
  if (init)
    for (const std::string& note : init->notes()) run.say(note);
  if (!run.ranks.device->host_readable()) run.say(fmt::format("device: {} (of rank 0)", run.ranks.device->name()));
  report_activations(run);
  const std::int64_t bytes_to_save = checkpoint_bytes(run.model.task->module(), num_holders, job.attach);
  const FirstValues values{.awaits_load = opening.resumes(), .init = init ? &*init : nullptr};
  std::string plan;
  if (job.pipeline.pipeline > 1) {
    attach_run_pipeline(run, values, bytes_to_save);
    plan = run.model.pipeline->text();
    run.records.progress.text(plan);
  } else {
    plan = print_plan(run);
    attach_engine(run, values, bytes_to_save);
  }
  init.reset();
  run.ranks.places = places_of(run);
  if (opening.resumes()) resume(run);
  if (run.model.engine) {
    try_operators(run);
    run.checkpoints.expect_room_to_copy(*run.model.engine, bytes_to_save / num_holders);
  }
  // A prediction of one section's engine is none of the pipeline's step.
  run.records.meter.begin(run.model.trained().report(), job.train.steps - run.state.step,
                          !job.attach.sync.has_servers() && !run.model.pipeline);
  run.timeline.expect(job.train.steps - run.state.step);
  return run.ranks.is_first() ? write_folder(run, opening, plan) : RunWeights{};
}

}  // namespace zero
