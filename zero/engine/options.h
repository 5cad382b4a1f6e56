// What an engine is told once, and what it reports back. Values only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "zero/memory/ledger.h"
#include "zero/optim/update_rule.h"
#include "zero/plan/param_spec.h"
#include "zero/plan/placement.h"

namespace zero {

// Budget of everything zero.cpp holds on the device: state, gathered units, staging.
//   auto: what is free on this machine, shared by its ranks     min: one unit gathered at a time, nothing ahead
struct DeviceMemory {
  enum class Kind : std::uint8_t { kAuto, kMin, kBytes };
  Kind kind = Kind::kAuto;
  std::int64_t bytes = 0;  // of kBytes
  // "auto", "min", or a size such as "64MiB". Throws ConfigError under "zero.device_memory".
  static DeviceMemory parse(std::string_view text);
};

// Parameters that share hyper-parameters; the first group whose predicate holds takes a parameter.
struct ParameterGroup {
  std::function<bool(const ParamSpec&)> matches;
  double weight_decay = 0;
  double lr_scale = 1;
};

struct EngineOptions {
  int stage = 3;
  Reduce reduce = Reduce::kAuto;
  int accumulate = 1;  // backward passes a step; all but the last inside an accumulate() scope
  DeviceMemory device_memory;
  OptimizerOptions optimizer = AdamWOptions{};
  // Empty: the optimizer's weight decay on parameters with two or more dimensions, none on the others.
  std::vector<ParameterGroup> groups;
  double clip = 0;             // global gradient norm; 0: off
  int threads = 1;             // for sums and updates
  int local_world = 1;         // ranks that share this machine's memory
  int max_skipped_steps = 10;  // so many steps in a row with a non-finite gradient end the run
};

// What one step did.
struct StepReport {
  std::int64_t step = 0;  // updates so far, this one included; skipped steps do not count
  double grad_norm = 0;   // of the average over ranks, before clipping
  bool skipped = false;   // a gradient was not finite: nothing was updated
  std::string culprit;    // then: the first parameter with such a gradient
};

// Seconds by phase since the last reset; `wait` is time spent waiting for other ranks, inside the others.
struct PhaseSeconds {
  double gather = 0;
  double reduce = 0;
  double update = 0;
  double wait = 0;
};

struct EngineReport {
  int world = 1;
  int rank = 0;
  int stage = 0;
  std::string transport;
  MemoryCount memory;                    // just before the first update of the last step
  MemoryCount peak_memory;               // by tag
  std::int64_t peak_memory_bytes = 0;    // of the sum
  std::int64_t sent_bytes_per_step = 0;  // of the last step
  std::int64_t received_bytes_per_step = 0;
  std::int64_t planned_sent_bytes = 0;  // what the schedule in force predicts for a step; 0 before there is one
  double state_formula_bytes = 0;
  double sent_formula_bytes = 0;
  std::int64_t num_parameters = 0;
  std::int64_t padding_bytes = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t departed_steps = 0;  // steps that did something else than their schedule
};

}  // namespace zero
