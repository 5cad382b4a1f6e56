#include "app/train/run/parts/run_saves.h"

#include <span>

#include "app/report/files/rank_values.h"

namespace zero {
namespace {

const RunState& state_to_save(Run& run) {
  const StepHistory& history = run.records.log.history();
  run.state.losses = history.losses();
  run.state.grad_norms = history.grad_norms();
  run.state.seconds = history.seconds();
  run.state.data = run.data.mark;
  run.state.places = run.ranks.places;
  const SentInSteps mine = run.records.meter.sent();
  run.state.sent.clear();
  for (const auto& rank : gather_ranks<SentInSteps>(run.ranks.comm(), std::span(&mine, 1)))
    run.state.sent.push_back(rank.front());
  run.state.served = run.records.served.run;
  run.state.line = run.records.log.line_of(run.state.step);
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
