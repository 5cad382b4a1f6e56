// settle_model_of_init(): keys of [model] that are not given follow the config.json beside the weights of model.init.
//
//   zero train --model.init gpt2 ...      # gpt2/config.json: model.name, layers, width, heads, context, vocab, dropout
//
// Given keys stay: those that contradict the weights are refused when the weights are opened (model_of_weights.h), and
// model.dropout wins. A settled key has the file as its origin. data.labels follows the names
// of classes in the file of a bert. Throws ConfigError under "model.init" for a file that is no JSON, and for several dropouts that differ,
// as a model here has one. Local.
#pragma once

#include "app/config/config.h"

namespace zero {

void settle_model_of_init(LoadedConfig& loaded);

}  // namespace zero
