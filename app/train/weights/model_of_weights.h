// require_model_of_weights(): the configured model is the one whose weights model.init names. Shapes do not tell that: with
// other heads, another base of rotary positions or another eps the same tensors are another function.
//
//   require_model_of_weights(job.model, task->published());
//   // ConfigError: model.rope_theta = 10000: the weights of model.init are of a model with 500000 (tiny/config.json: rope_theta)
//   //   set model.rope_theta to 500000
//
// Looked at are two files beside the weights, where they are there:
//   - config.json of transformers, where the model is one that transformers knows. What it leaves out stands at transformers'
//     defaults. All keys of [model] that differ are told in one error; what no key can change is refused with its name.
//     A file that describes no model is passed over.
//   - config.toml of a run of `zero train`, beside its report.json.
// Local; no weight is read. Throws ConfigError.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "zero/checkpoint/safetensors/transformers_config.h"

#include "app/train/tasks/model_options.h"

namespace zero {

// `published`: the same model as transformers knows it; nothing: it does not. Returns lines for the user: whose dropout
// counts, and what config.json asks for that is not done here.
std::vector<std::string> require_model_of_weights(const ModelOptions& model,
                                                  const std::optional<TransformersModel>& published);

}  // namespace zero
