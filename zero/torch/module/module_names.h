// module_names(): the names of chosen modules inside a module, for AttachOptions::units. Each becomes a unit.
//
//   {.units = module_names(*model, {*model->encoder, *model->head})}                       // these modules
//   {.units = module_names_if(*model, [](const torch::nn::Module& m) { return m.as<BlockImpl>() != nullptr; })}
//
// Outermost modules come first; a module inside a named module is not named. Local. Throws ConfigError ("units") for a
// module that is not inside `root`. Also throws it if no module is chosen, because an empty list of units would mean
// the default.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <torch/nn/module.h>

namespace zero {

std::vector<std::string> module_names(const torch::nn::Module& root,
                                      const std::vector<std::reference_wrapper<const torch::nn::Module>>& wanted);
std::vector<std::string> module_names_if(const torch::nn::Module& root,
                                         const std::function<bool(const torch::nn::Module&)>& wanted);

}  // namespace zero
