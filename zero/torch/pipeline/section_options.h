// Options of a pipeline's engines: require_pipeline_options() refuses some, section_options() divides the others.
//
//   require_pipeline_options(options, tensors);                     // before anything is allocated
//   AttachOptions own = section_options(options, of_section, .25);  // a quarter of the rank's budgets
//
// Local.
#pragma once

#include <vector>

#include "zero/engine/options/options.h"
#include "zero/torch/module/model_tensors.h"

namespace zero {

// Throws ConfigError under the name of the first option that a pipeline cannot have.
void require_pipeline_options(const AttachOptions& options, const std::vector<torch::Tensor>& parameters);

// Returns the options of one section's engine. `tensors`: the section's. `share`: its part of the rank's budgets in
// bytes. Names of units and groups that only other sections have are left out.
AttachOptions section_options(AttachOptions options, const ModelTensors& tensors, double share);

}  // namespace zero
