#include "zero/report/engine_figures.h"

namespace zero {

void add_figures(const EngineReport& engine, RankReport& rank) {
  rank.memory = engine.memory;
  rank.peak_memory = engine.peak_memory;
  rank.host_memory = engine.host_memory;
  rank.peak_host_memory = engine.peak_host_memory;
  rank.disk_memory = engine.disk_memory;
  rank.peak_memory_total = engine.peak_memory_bytes;
  rank.peak_host_memory_total = engine.peak_host_memory_bytes;
  rank.sent_bytes_per_step = engine.sent_bytes_per_step;
  rank.received_bytes_per_step = engine.received_bytes_per_step;
}

void add_figures(const EngineReport& engine, RunReport& run) {
  run.num_parameters = engine.num_parameters;
  run.state_formula_bytes = engine.state_formula_bytes;
  run.sent_formula_bytes = engine.sent_formula_bytes;
  run.padding_bytes = engine.padding_bytes;
  run.planned_sent_bytes = engine.planned_sent_bytes;
  run.skipped_steps = engine.skipped_steps;
  run.delayed_steps = engine.delayed_steps;
  run.departed_steps = engine.departed_steps;
  run.replans = engine.replans;
  run.moved_bytes = engine.moved_bytes;
  run.transport = engine.transport;
  run.disk = engine.disk;
}

}  // namespace zero
