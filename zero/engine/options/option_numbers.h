// require_numbers(): checks that each number of the options is in its range.
//
//   require_numbers(options);          // groups[1].lr_scale = nan: must be a finite number, 0 or more
//
// One table has the ranges of all numbers. Update rules check their own numbers with the same ranges
// (make_update_rule()), and so do outer steps (with_outer_states()). Numbers that depend on other options or on the
// number of ranks are checked in mesh_of() and place(). Local. Throws ConfigError.
#pragma once

#include "zero/engine/options/options.h"
#include "zero/engine/options/step_report.h"

namespace zero {

void require_numbers(const AttachOptions& options);

// Check the rates and the limits of a step. `num_groups`: of the options.
void require_rates(const StepRates& rates, std::size_t num_groups);
// Infinity: no limit.
void require_limits(double max_loss, double max_grad_norm);

}  // namespace zero
