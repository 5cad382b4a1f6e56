// AttachedSteps: the steps of an attached model, and the gradients that it drops.
//
//   StepReport report = steps.step(rates, limits);
//   steps.drop_zeroed();            // before other work: zero_grad() was perhaps called since the last call
//
// All functions are Collective, and throw ConfigError if there are no values. Steps also throw it if a parameter was
// replaced since attach(), if a gradient was read or set elsewhere, or if this rank's role has no steps.
#pragma once

#include <vector>

#include "zero/engine/rank_engine.h"
#include "zero/engine/rank_role.h"
#include "zero/torch/attached/attached_checkpoints.h"
#include "zero/torch/attached/attached_gradients.h"
#include "zero/torch/attached/attached_parameters.h"
#include "zero/torch/attached/attached_values.h"

namespace zero {

// The parts of an attached model that its steps use.
struct PartsOfSteps {
  RankEngine& engine;
  const AttachedParameters& parameters;
  AttachedGradients& gradients;
  RankRole& role;
  AttachedValues& values;
  AttachedCheckpoints& checkpoints;
};

class AttachedSteps {
 public:
  // All parts must outlive the object.
  explicit AttachedSteps(const PartsOfSteps& parts) : parts_(parts) {}

  StepReport step(const StepRates& rates, const StepLimits& limits);
  // The two halves of step(), for a section of a model (zero/torch/pipeline). Every rank of it has the usual role.
  StepSync agree(const StepRates& rates, const StepLimits& limits);
  StepReport carry_out(const StepSync& agreed, const StepRates& rates);

  // Drops all gradients and micro-batches of the running step.
  void discard_gradients();
  // Drops the gradients of parameters on which zero_grad() was called since the last call; no-op if it was not called.
  void drop_zeroed();

 private:
  void begin(const StepRates& rates);
  void drop(const std::vector<bool>& params);

  PartsOfSteps parts_;
};

}  // namespace zero
