// ModelOptions: the keys of [model], and the keys of [train] that concern the model. Each model reads its own keys.
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

#include "zero/memory/activation_offload_values.h"

namespace zero {

struct ModelOptions {
  std::string name = "gpt2";  // name of a row of model_table.h
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t hidden = 0;  // width of a recurrent layer or of the feed-forward part; 0: the model's default
  std::int64_t kv_heads = 0;
  double rope_theta = 10000;
  double norm_eps = 1e-5;
  bool tie_embeddings = false;
  std::int64_t context = 64;
  std::int64_t vocab = 0;  // 0: the data's vocabulary
  double dropout = 0;
  bool checkpoint_activations = false;  // key of [train]: only a model of blocks can compute activations again
  // Storage of the inputs of activation checkpoints until backward; absent: they stay on the device.
  std::optional<ActivationOffloadOptions> activation_offload{};
  std::vector<std::int64_t> sizes = {784, 256, 10};
  double label_smoothing = 0;  // key of [train]
  std::string init;            // a safetensors file; empty: random values

  bool offloads_to(Tier tier) const { return activation_offload && activation_offload->tier == tier; }
};

}  // namespace zero
