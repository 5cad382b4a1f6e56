#include "app/train/run/parts/run.h"

#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

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

}  // namespace

Run::Run(const TrainJob& with, World& world, const TrainOutput& output, const TrainSeams& seams)
    : job(with),
      stop(output.stop),
      ranks(job, world, seams),
      folder(job.run_dir),
      timeline(job.timeline, job.train.steps, world, job.run_dir),
      data(job, ranks.comm()),
      model(job, ranks, data.corpus.shape()),
      records(job, ranks, *model.task, folder, output),
      checkpoints(
          job.checkpoint, folder.files().checkpoints, launcher_memory(job, world), ranks.comm(),
          [this](const std::string& line) { say(line); },
          is_on_one_machine(world) ? RunCheckpoints::Machines::kOne : RunCheckpoints::Machines::kSeveral),
      health(job.health, job.attach.max_skipped_steps, samples_per_step(job.train, ranks.num_computing), state, folder,
             checkpoints, records.log) {
  checkpoints.save_only_after(job.saves);
  checkpoints.log_saves([this](std::int64_t step, const std::string& state_sums) {
    if (!state_sums.empty()) records.log.add(SavedMetrics{.step = step, .state_sums = state_sums});
  });
}

}  // namespace zero
