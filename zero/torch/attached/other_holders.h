// warn_of_other_holders(): tensors outside the model that share a parameter's memory when attach() is called.
//
//   warn_of_other_holders(parameters_of(model, dtype), model);
//   // fc.weight: another tensor shares its memory (a view ...): attach() leaves it behind ...
//
// attach() gives each parameter a storage of its own. A view made before attach(), a detach() or a saved input of an
// earlier graph keeps the old memory, which training does not change. Handles of the parameter itself are not other
// holders: optimizers, named_parameters() and tied names hold the same tensor (docs/decisions/0078). Local. Prints one
// line, with the first such parameter.
#pragma once

#include <string>
#include <vector>

#include "zero/torch/module/model_tensors.h"
#include "zero/torch/module/module_parameters.h"

namespace zero {

// Returns the names of parameters whose memory another tensor shares.
std::vector<std::string> held_elsewhere(const ModuleParameters& found, const ModelTensors& model);

void warn_of_other_holders(const ModuleParameters& found, const ModelTensors& model);

}  // namespace zero
