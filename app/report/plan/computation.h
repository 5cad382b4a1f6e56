// Computation: the seconds that a model computes in a step, for a prediction: from a run, or an estimate.
//
//   Computation known = computation_of_run("runs/mine", units.size(), 1024);
//   Computation guess = estimated_computation({.flops = flops, .flops_per_second = probe_matmul_flops()});
//   estimate_uses(trace, units, guess.step);         // when units are used in a pass
//
// An estimate uses the model's flops and the speed of a machine. Local.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/plan/model/step_model.h"
#include "zero/plan/schedule/trace.h"

namespace zero {

enum class ComputationFrom : std::uint8_t { kNowhere, kRun, kEstimate };
std::string_view name_of(ComputationFrom from);  // "nowhere", "run", "estimate"

struct Computation {
  ComputationFrom from = ComputationFrom::kNowhere;
  StepProfile step;
  double update_seconds = 0;     // from a run: arithmetic of its update
  bool states_on_device = true;  // from a run: all computation was on the device of the model
  bool on_gpu = false;           // from a run
  TierRates rates;               // from a run that probed them; zeros: it did not
  int world = 0;                 // from a run
  double scale = 1;              // from a run: factor for its seconds, for another number of samples a rank
  double flops = 0;              // estimate: of a rank's step, with recomputation
  double flops_per_second = 0;   // estimate
  double crowd = 1;              // estimate: ranks that share a core; each takes as many times longer
};

// `run`: the folder of a run that ended, on a CPU with everything on the device. If its ranks took another number of
// tokens (or samples) a step than `tokens_per_rank`, its seconds are scaled. Throws ConfigError under "--profile" if
// there is no report, or if it is of another model.
Computation computation_of_run(const std::string& run, std::size_t num_units, double tokens_per_rank);

struct ComputationNeed {
  double flops = 0;  // of a rank's forward and backward passes in a step
  // true: activation checkpoints run parts of the model again
  bool computes_again = false;
  double flops_per_second = 0;  // of a rank that has its cores to itself
  double crowd = 1;             // ranks that share a core
};
// A third of the flops are forward, the rest backward. Activation checkpoints add a third to the backward pass. The
// result is a lower bound, because only matrix products are counted.
Computation estimated_computation(const ComputationNeed& need);

// Estimates when units are used in a pass, and when their gradients are complete, from their order in the trace of a
// step. All elements cost the same, and a unit's cost is shared equally by its accesses.
void estimate_uses(const Trace& trace, const std::vector<Unit>& units, StepProfile& profile);

}  // namespace zero
