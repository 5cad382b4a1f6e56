#include "app/train/run/start/run_engine.h"

#include <limits>
#include <utility>

#include "zero/torch/attach_host.h"
#include "zero/torch/engine_control.h"
#include "zero/torch/seam/torch_device.h"

#include "app/train/folder/save_pace.h"
#include "app/train/limits.h"
#include "app/train/machine/machine_peak.h"
#include "app/train/machine/rate_cache.h"

namespace zero {
namespace {

// Returns known rates. The disk's rates are needed if states may be on disk: to choose a placement, or to predict a
// step. The rates of a GPU and its link are needed for plans that name the run (`zero plan --profile`).
EngineHost known_before(const TrainJob& job, const Device& device, const std::string& machine) {
  const OffloadOptions& offload = job.attach.offload;
  EngineHost known{.activation_bytes = job.activation_bytes,
                   .probes = !offload.disk.empty() || !offload.fractions.on_device() || !device.host_readable()};
  if (!job.probe_again) known.rates = RateCache().find(machine, !offload.disk.empty()).value_or(TierRates{});
  known.rates.link_up = known.rates.link_down = offload.link_bytes_per_second;
  return known;
}

// Reports whether training may have to wait for saves, when that can still be changed.
void expect_saves(Run& run, std::int64_t bytes) {
  const TrainJob& job = run.job;
  if (!job.checkpoint.on()) return;
  const double save_seconds = estimate_save_seconds(run.ranks.comm(), run.folder.path(), bytes);
  if (save_seconds == 0) return;
  double step_seconds = 0;  // lower bound
  if (job.checkpoint.every_steps > 0) {
    const double flops =
        run.model.task->flops_per_sample() * static_cast<double>(job.train.batch * job.train.accumulate);
    step_seconds = flops / probe_matmul_flops(place_of(*run.ranks.device));
  }
  const std::string note = pace_note(job.checkpoint, bytes, save_seconds, step_seconds);
  if (!note.empty()) run.say(note);
}

}  // namespace

void report_states(Run& run) {
  const EngineReport report = run.model.trained().report();
  if (!off_device(report)) return;
  run.say(first_limits(report));
  const std::string why = why_states_stay(report, run.job.attach.offload);
  if (!why.empty()) run.say(why);
}

void attach_engine(Run& run, const FirstValues& values, std::int64_t checkpoint_bytes) {
  const TrainJob& job = run.job;
  AttachOptions options = job.attach;
  const std::string machine =
      machine_identity(options.offload, options.optimizer, run.ranks.world.local_size(), options.threads);
  EngineHost known = known_before(job, *run.ranks.device, machine);
  known.device = run.ranks.device.get();
  known.free_device_bytes = run.ranks.seams.free_device_bytes;
  if (!job.probe_again) known.beside_on_device = run.model.torch_memory.expected();
  options.timeline = run.timeline.recorder();
  if (values.init != nullptr) options.weights = values.init->source();
  options.awaits_load = values.awaits_load;
  options.max_skipped_steps = std::numeric_limits<int>::max();  // RunHealth counts them, and logs before a run ends
  expect_saves(run, checkpoint_bytes);
  run.model.engine.emplace(attach(tensors_of(run.model.task->module()), run.ranks.world, std::move(options), known));
  if (ActivationStore* activations = run.model.task->activations())
    run.model.engine->control().share_link(*activations);
  RunCheckpoints::require_room(job.checkpoint, run.folder.files().checkpoints.path(), checkpoint_bytes,
                               [&run](const std::string& line) { run.say(line); });
  report_states(run);
  // The engine also probes if it chooses a placement.
  const TierRates rates = run.model.engine->report().rates;
  if (run.ranks.is_first() && known.rates.update_numel == 0 && rates.update_numel > 0) RateCache().keep(machine, rates);
}

}  // namespace zero
