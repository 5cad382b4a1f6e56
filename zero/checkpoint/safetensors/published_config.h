// published_keys(): what the config.json of a published model says of the keys of [model].
//
//   const PublishedConfig found = read_published_config("gpt2/model.safetensors");    // gpt2/config.json
//   for (const PublishedKey& key : published_keys(PublishedKind::kGpt2, found.json)) ...
//       // {"model.layers", "n_layer", 12}, ...; a key that the file leaves out has transformers' default
//
// Local; no weight is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "zero/checkpoint/safetensors/transformers_config.h"

namespace zero {

struct PublishedKey {
  std::string key;  // "model.layers"
  std::string at;   // "n_layer"
  nlohmann::ordered_json value;
  bool is_of_weights = true;  // weights with another value are another function; false: such as dropout
};

// Returns the keys of [model] for a published configuration. gpt2: layers, width, heads, context; llama: also kv_heads,
// hidden, rope_theta, norm_eps, tie_embeddings; bert: also hidden. Keys that the weights do not determine are last:
// context of a llama, and vocab.
std::vector<PublishedKey> published_keys(PublishedKind kind, const nlohmann::ordered_json& config);

// The probabilities of dropout in training, each under its name in the file.
std::vector<PublishedKey> published_dropouts(PublishedKind kind, const nlohmann::ordered_json& config);
// "embd_pdrop = 0.1, attn_pdrop = 0.0".
std::string list_of(const std::vector<PublishedKey>& keys);
bool are_equal(const std::vector<PublishedKey>& keys);

// The names of the classes of a bert, in their order, if the file names them otherwise than LABEL_0, LABEL_1, ...
std::vector<std::string> published_classes(const nlohmann::ordered_json& config);

struct PublishedConfig {
  std::filesystem::path file;   // config.json in the folder of the weights
  nlohmann::ordered_json json;  // an object
  // What model_type names, if zero.cpp has that model.
  std::optional<PublishedKind> kind;
  std::string kind_name;  // model_type
};

// The folder that model.init is, or in which it is.
std::filesystem::path folder_of_weights(const std::filesystem::path& init);

// Reads the configuration. Returns nothing if there is no such file, or if it describes no model. Throws ConfigError
// under "model.init" if a file is not JSON or cannot be read.
std::optional<PublishedConfig> read_published_config(const std::filesystem::path& init);

// Its value of `name`; `usual` if the file leaves it out, or has null.
nlohmann::ordered_json published_value(const nlohmann::ordered_json& config, std::string_view name,
                                       nlohmann::ordered_json usual);

}  // namespace zero
