// require_numbers(): each number of the options is in its range; one table has all ranges that hold for a number by itself.
//
//   require_numbers(options);          // groups[1].lr_scale = nan: must be a finite number, 0 or more
//
// Update rules check their own numbers by the same ranges (make_update_rule()), and so do outer steps (with_outer_states()).
// Numbers that must fit other options or the number of ranks are checked where these are known (mesh_of(), place()).
// Local. Throws ConfigError.
#pragma once

#include "zero/engine/options/options.h"
#include "zero/engine/options/step_report.h"

namespace zero {

void require_numbers(const EngineOptions& options);

// The same for the learning rate and the limits of a step.
void require_learning_rate(double lr);
// Infinity: no limit.
void require_limits(double max_loss, double max_grad_norm);

}  // namespace zero
