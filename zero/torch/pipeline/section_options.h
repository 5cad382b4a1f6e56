// Options of a pipeline's engines: compared over ranks, refused if a pipeline cannot have them, and derived for one
// section.
//
//   require_same_pipeline(run, pipeline, options, model);           // before anything is allocated
//   require_pipeline_options(options, tensors);
//   const AttachOptions of_model = with_loss_scale(options, specs);
//   AttachOptions own = section_options(of_model, of_section, /*share=*/.25);  // a quarter of the rank's budgets
//
// Local, unless a function says otherwise.
#pragma once

#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/options/options.h"
#include "zero/plan/pipeline/pipeline.h"
#include "zero/plan/units/param_spec.h"
#include "zero/torch/module/model_tensors.h"

namespace zero {

// Collective over the run. Throws ConfigError under "attach_pipeline()" on every rank, if ranks have different models,
// pipelines, or other options that change the computation. The text names the first rank that differs from rank 0, and
// both values.
void require_same_pipeline(Communicator& run, const PipelineOptions& pipeline, const AttachOptions& options,
                           const ModelTensors& model);

// Throws ConfigError under the name of the first option that a pipeline cannot have: "sync.servers", "sync.mode",
// "zero.delayed_update", "comm.gather_wire", "comm.reduce_wire", "comm.outer_wire" or "run.device".
void require_pipeline_options(const AttachOptions& options, const std::vector<torch::Tensor>& parameters);

// Returns the options with the loss scale that attach() would choose for a model with these parameters. Then sections
// without a trained fp16 parameter have the scale of all others.
AttachOptions with_loss_scale(AttachOptions options, const std::vector<ParamSpec>& specs);

// Returns the options of one section's engine. `tensors`: those of the section. `share`: its part of the rank's budgets
// in bytes. Units without a parameter of this section are left out. Groups lose their names, so a group may have no
// parameter in this section.
AttachOptions section_options(AttachOptions options, const ModelTensors& tensors, double share);

}  // namespace zero
