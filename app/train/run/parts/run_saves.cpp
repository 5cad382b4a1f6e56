#include "app/train/run/parts/run_saves.h"

namespace zero {
namespace {

const RunState& state_to_save(Run& run) {
  const StepHistory& history = run.records.log.history();
  run.state.losses = history.losses();
  run.state.grad_norms = history.grad_norms();
  run.state.seconds = history.seconds();
  run.state.data = run.data.mark;
  run.state.places = run.ranks.places;
  return run.state;
}

}  // namespace

void save_run(Run& run) {
  run.checkpoints.begin(run.model.trained(), state_to_save(run), run.job.config_text, SaveMode::kAsync);
}

void save_run_in_memory(Run& run) {
  run.checkpoints.save_in_memory(*run.model.engine, state_to_save(run), run.job.config_text);
}

}  // namespace zero
