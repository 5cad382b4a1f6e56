#include "zero/train/run_outlook.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zero/train/run_checkpoints.h"
#include "zero/train/run_folder.h"
#include "zero/train/run_opening.h"
#include "zero/transport/world.h"

namespace zero {

RunOutlook look_ahead(const TrainJob& job) {
  World world = std::move(World::in_process(1).front());
  RunOutlook outlook;
  const auto say = [&outlook](const std::string& line) { outlook.line = line; };
  const RunFolder folder(job.run_dir);
  RunCheckpoints checkpoints(job.checkpoint, folder.files().checkpoints, std::nullopt, world.communicator(), say);
  const RunOpening opening(job, folder, checkpoints, world.communicator());
  if (opening.is_done()) {
    opening.require_same_model();
    return {.step = job.train.steps, .is_done = true, .line = opening.why_done()};
  }
  opening.require_may_start(say);
  if (!opening.resumes()) return outlook;
  outlook.step = checkpoints.steps().front();
  require_steps_left(job, outlook.step);
  outlook.line = fmt::format("goes on after step {} of {}", outlook.step, job.train.steps);
  return outlook;
}

}  // namespace zero
