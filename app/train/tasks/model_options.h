// ModelOptions: the keys of [model], and what [train] asks of a model. A model looks at its own.
//
//   ModelOptions{.name = "gpt2", .layers = 4, .width = 128, .heads = 4, .context = 64}
//   ModelOptions{.name = "mlp", .sizes = {784, 256, 10}}
//
// Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zero/torch/activations/activation_store.h"

namespace zero {

struct ModelOptions {
  std::string name;  // of a row of model_table.h
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t hidden = 0;  // of a recurrent layer, or of the feed-forward part; 0: the model's usual
  std::int64_t kv_heads = 0;
  double rope_theta = 10000;
  double norm_eps = 1e-5;
  bool tie_embeddings = false;
  std::int64_t context = 64;
  std::int64_t vocab = 0;  // 0: the data's
  double dropout = 0;
  bool checkpoint_activations = false;  // of [train]: only a model of blocks has something to compute again
  // Where the inputs of activation checkpoints lie until backward; absent: where they are made.
  std::optional<ActivationOffloadOptions> activation_offload{};
  std::vector<std::int64_t> sizes;
  double label_smoothing = 0;  // of [train]
  std::string init;            // a safetensors file; empty: random
};

}  // namespace zero
