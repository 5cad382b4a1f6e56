// Options of a pipeline's engines: all ranks have the same, require_pipeline_options() refuses some, and
// section_options() divides the others.
//
//   require_same_pipeline(run, pipeline, options, model);           // before anything is allocated
//   require_pipeline_options(options, tensors);
//   AttachOptions own = section_options(options, of_section, .25);  // a quarter of the rank's budgets
//
// Local, unless a function says otherwise.
#pragma once

#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/options/options.h"
#include "zero/plan/pipeline/pipeline.h"
#include "zero/torch/module/model_tensors.h"

namespace zero {

// Collective over the run. Throws ConfigError under "attach_pipeline()" on every rank, if two ranks differ in an option
// of the pipeline, in another option that changes the computation, or in the model's parameters or buffers. The text
// names the first rank that differs from rank 0, and both values.
void require_same_pipeline(Communicator& run, const PipelineOptions& pipeline, const AttachOptions& options,
                           const ModelTensors& model);

// Throws ConfigError under the name of the first option that a pipeline cannot have.
void require_pipeline_options(const AttachOptions& options, const std::vector<torch::Tensor>& parameters);

// Returns the options of one section's engine. `tensors`: the section's. `share`: its part of the rank's budgets in
// bytes. Names of units and groups that only other sections have are left out.
AttachOptions section_options(AttachOptions options, const ModelTensors& tensors, double share);

}  // namespace zero
