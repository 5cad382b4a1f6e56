// Computation: the seconds that a model computes in a step, for a prediction. They come from a run, or else are
// estimated from the model's flops and the speed of a machine.
//
//   Computation known = computation_of_run("runs/mine", units.size(), 1024);
//   Computation guess = estimated_computation({.flops = flops, .flops_per_second = probe_matmul_flops()});
//   estimate_uses(trace, units, guess.step);         // when in a pass units are used
//
// Local.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/plan/step_model.h"
#include "zero/plan/trace.h"

namespace zero {

enum class ComputationFrom : std::uint8_t { kNowhere, kRun, kEstimate };
std::string_view name_of(ComputationFrom from);  // "nowhere", "run", "estimate"

struct Computation {
  ComputationFrom from = ComputationFrom::kNowhere;
  StepProfile step;
  double update_seconds = 0;     // of a run: the arithmetic of its update
  bool states_on_device = true;  // of a run: so all of that was done where the model computes
  bool on_gpu = false;           // of a run
  TierRates rates;               // of a run that probed them; zeros: it did not
  int world = 0;                 // of a run
  double scale = 1;              // of a run: its seconds are multiplied, for other samples a rank
  double flops = 0;              // of an estimate: of a rank's step, with what is computed again
  double flops_per_second = 0;   // of an estimate
  double crowd = 1;              // of an estimate: ranks that share a core; each takes that many times as long
};

// `run`: the folder of a run that ended, on a CPU with everything on the device. Where its ranks took another number of tokens
// (or samples) a step than `tokens_per_rank`, their seconds are scaled. Throws ConfigError under "--profile": no
// report, or one of another model.
Computation computation_of_run(const std::string& run, std::size_t num_units, double tokens_per_rank);

struct ComputationNeed {
  double flops = 0;  // of a rank's forward and backward passes in a step
  bool computes_again = false;
  double flops_per_second = 0;  // with the cores to itself
  double crowd = 1;             // ranks that share a core
};
// A third of the flops forward, the rest backward; with activation checkpoints a third more there. It is the least
// time: only matrix products are counted.
Computation estimated_computation(const ComputationNeed& need);

// When units are used in a pass, and their gradients complete, by their order in the trace of a step: an element of a
// unit costs as much as one of any other, in equal parts at each access of the unit.
void estimate_uses(const Trace& trace, const std::vector<Unit>& units, StepProfile& profile);

}  // namespace zero
