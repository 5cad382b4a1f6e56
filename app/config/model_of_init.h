// settle_model_of_init(): sets keys of [model] from the config.json beside the weights of model.init.
//
//   zero train --model.init gpt2 ...      # gpt2/config.json: model.name, layers, width, heads, context, vocab, dropout
//
// Keys that the user gave stay. If they contradict the weights, they are refused when the weights are opened
// (model_of_weights.h); a given model.dropout is never refused. A key that is set here has the file as its origin. For
// a bert, data.labels also takes the names of classes in that file.
//
// Local. Throws ConfigError under "model.init" if the file is not JSON, or if it has several dropouts that differ,
// because a model here has only one.
#pragma once

#include "app/config/options/config.h"

namespace zero {

void settle_model_of_init(LoadedConfig& loaded);

}  // namespace zero
