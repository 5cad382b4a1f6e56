// Names of modules inside a module, for AttachOptions::units: which of them are gathered and reduced as one.
//
//   {.units = module_names(*model, {*model->encoder, *model->head})}                       // these
//   {.units = module_names_if(*model, [](const torch::nn::Module& m) { return m.as<BlockImpl>() != nullptr; })}
//
// Outermost modules first; inside a module that is named no other is. Local. Throws ConfigError ("units") for a module
// that is not inside `root`, and where no module is wanted: an empty list of units would mean "as you like".
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
