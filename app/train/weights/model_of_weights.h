// require_model_of_weights(): checks that the configured model is the model of the weights in model.init.
//
//   require_model_of_weights(job.model, task->published());
//   // ConfigError: model.rope_theta = 10000: the weights of model.init are of a model with 500000 (...)
//   //   set model.rope_theta to 500000
//
// Shapes are not enough: with other heads, another base of rotary positions or another eps, the same tensors are
// another function. Two files beside the weights are read, if they exist:
//   - config.json of transformers, if transformers has the model. Missing values have transformers' defaults. One error
//     names all keys of [model] that differ. A difference that no key can change is refused with its name. A file that
//     describes no model is ignored.
//   - config.toml of a run of `zero train`, if it is beside its report.json.
// Local; no weight is read. Throws ConfigError.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "zero/checkpoint/safetensors/transformers_config.h"

#include "app/train/tasks/model_options.h"

namespace zero {

// Returns lines for the user: whose dropout is used, and which settings of config.json zero.cpp ignores. `published`:
// the configured model in transformers' terms; empty: transformers does not have it.
std::vector<std::string> require_model_of_weights(const ModelOptions& model,
                                                  const std::optional<TransformersModel>& published);

}  // namespace zero
