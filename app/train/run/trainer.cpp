#include "app/train/run/trainer.h"

#include <exception>
#include <optional>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include "zero/base/error/error.h"
#include "zero/torch/seam/torch_device.h"

#include "app/train/folder/run_lock.h"
#include "app/train/machine/device_memory.h"
#include "app/train/run/run_end.h"
#include "app/train/run/start/run_opening.h"
#include "app/train/run/start/run_start.h"
#include "app/train/run/training_loop.h"
#include "app/train/run/worker_run.h"

namespace zero {
namespace {

// If the device's memory is short after the engine is attached, throws an error that says who holds how much. The peers
// are notified as after any failure.
template <typename Body>
TrainResult naming_device_memory(Run& run, Body body) {
  const auto fail = [&](std::string_view said) {
    EngineReport report = run.model.engine->report();
    if (const ActivationStore* activations = run.model.task->activations()) {
      const MemoryCount blocks = activations->report().peak.device;
      report.peak_memory.device += blocks;
      report.peak_memory_bytes.device += blocks.total();
    }
    DeviceMemoryUse use{.device = std::string(run.ranks.device->name()),
                        .held = report.peak_memory.device,
                        .most_held = report.peak_memory_bytes.device,
                        .torch = run.model.torch_memory.held()};
    use.next_run_leaves =
        run.model.torch_memory.learn_from_full({.torch = use.torch, .asked = asked_bytes(said), .held = use.most_held});
    const ConfigError error = device_memory_error(use, run.state.step + 1, said);
    run.ranks.world.write_flight(error);
    throw error;
  };
  const bool on_gpu = !run.ranks.device->host_readable();
  try {
    return body();
  } catch (const c10::OutOfMemoryError& error) {
    if (!on_gpu || !run.model.engine) throw;
    fail(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    if (!on_gpu || !run.model.engine || !is_out_of_memory(error.what_without_backtrace())) throw;
    fail(error.what_without_backtrace());
  } catch (const ConfigError& error) {
    if (!on_gpu || !run.model.engine || error.key() != "memory") throw;
    fail(error.what());
  }
  return {};  // fail() throws
}

TrainResult train_in_folder(const TrainJob& job, World& world, const TrainOutput& output, const TrainSeams& seams) {
  const SyncPlan& sync = job.attach.sync;
  if (sync.has_servers() && !sync.is_server(world.rank())) return run_worker(job, world);
  std::optional<RunLock> lock;  // released when nothing writes into the folder any more
  Run run(job, world, output, seams);
  lock = hold_folder(run.folder, run.ranks.comm());
  const RunOpening opening(job, run.folder, run.checkpoints, run.ranks.comm());
  if (sync.has_servers()) share_is_done(world.communicator(), opening.is_done());
  if (opening.is_done()) {
    opening.require_same_model();
    if (run.ranks.is_first()) run.say(opening.why_done());
    return {.was_done = true};
  }
  const BackwardOnCaller one_thread(place_of(*run.ranks.device));
  return naming_device_memory(run, [&]() -> TrainResult {
    RunEnd end(run, start_run(run, opening));
    TrainingLoop loop(run);
    if (const int signal = loop.run(opening.resumes()); signal != 0) {
      const StoppedRun stopped = end.stop(signal);
      return {.stop_signal = signal, .saved = stopped.saved, .save_failed = stopped.save_failed};
    }
    if (loop.pauses()) {
      const StoppedRun paused = end.pause();
      return {.saved = paused.saved, .save_failed = paused.save_failed};
    }
    TrainResult result{.report = end.finish()};
    result.save_failed = run.checkpoints.last_failed();
    return result;
  });
}

}  // namespace

TrainResult train(const TrainJob& asked, World& world, TrainOutput output, const TrainSeams& seams) {
  world.keep_flight_in(RunFiles(asked.run_dir).flight);
  try {
    require_possible(asked.attach.sync, world.size());
    const TrainJob job = with_words(as_recorded(asked, world.communicator()), world.communicator());
    at::set_num_threads(job.attach.threads);
    return train_in_folder(job, world, output, seams);
  } catch (const ConfigError&) {
    throw;  // thrown before anything began; its message is enough
  } catch (const std::exception& error) {
    world.write_flight(error);
    throw;
  }
}

}  // namespace zero
