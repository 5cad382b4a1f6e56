#include "app/train/run/start/run_outlook.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/load.h"
#include "zero/checkpoint/read/checkpoint_reader.h"
#include "zero/comm/transport/world.h"
#include "zero/optim/rule/update_rule.h"

#include "app/train/folder/run_checkpoints.h"
#include "app/train/folder/run_folder.h"
#include "app/train/run/start/run_opening.h"

namespace zero {

namespace {

// With copies that train apart or servers, the saved states depend on the ranks of the run, so they are not compared
// here.
void require_same_states(const TrainJob& job, const std::filesystem::path& checkpoint) {
  if (job.attach.local || job.attach.sync.has_servers()) return;
  std::vector<std::string> saved, states{"parameter"};
  try {
    saved = CheckpointReader(checkpoint).manifest().states;
  } catch (const IoError&) {
    return;  // damaged: the run continues from an older checkpoint
  }
  for (const StateSpec& state : states_of_elements(rule_of(job.attach)->states())) states.push_back(state.name);
  static_cast<void>(numbers_of_states(checkpoint, saved, states, {}));
}

}  // namespace

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
  require_same_states(job, folder.files().checkpoints.path_of(outlook.step));
  outlook.line = fmt::format("continues after step {} of {}", outlook.step, job.train.steps);
  return outlook;
}

}  // namespace zero
