// transformers_config(): the config.json with which Hugging Face's transformers loads a model.
//
//   write_file(folder / "config.json", transformers_config({.kind = PublishedKind::kGpt2, .layers = 4, .width = 128,
//                                                           .heads = 4, .context = 64, .vocab = 256}, dtype));
//
// It is beside model.safetensors, or beside shards and their index. In Python,
// AutoModelForCausalLM.from_pretrained("folder") then loads the model, or AutoModelForSequenceClassification loads a
// BERT.
// The config.json of published first weights is the base: keys that zero.cpp does not know, and keys with the same
// meaning, stay as they are. Values; Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/numbers/dtype.h"

namespace zero {

// Models with Hugging Face's names and layouts: those of app/models/gpt2.h, llama.h and bert.h.
enum class PublishedKind : std::uint8_t { kGpt2, kLlama, kBert };

struct TransformersModel {
  PublishedKind kind = PublishedKind::kGpt2;
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // Llama only
  std::int64_t hidden = 0;    // width of the feed-forward part; Llama and BERT only
  std::int64_t context = 0;
  std::int64_t vocab = 0;
  std::int64_t classes = 0;  // BERT only
  std::int64_t pad = 0;      // the token that fills short texts; BERT only
  double dropout = 0;
  double rope_theta = 10000;  // this and the following: Llama only
  double norm_eps = 1e-5;
  bool tie_embeddings = false;
  std::vector<std::string>
      class_names{};  // of a bert, in their order; empty: those of the base, or LABEL_0, LABEL_1, ...
};

// The weights in the file have type `dtype`. `base`: the config.json of its first weights, which describes
// the same kind of model; else it does not count.
std::string transformers_config(const TransformersModel& model, DType dtype, std::string_view base = "");

// True if the folder has a config.json that is of no model.
bool has_foreign_config(const std::filesystem::path& folder);

// Writes the config into `folder`, and replaces one that is of a model. Writes nothing for a model that transformers
// does not know (absent). Returns false and changes nothing if the folder has a config.json that is of no model. Throws
// IoError.
bool write_transformers_config(const std::filesystem::path& folder, const std::optional<TransformersModel>& model,
                               DType dtype, std::string_view base = "");

// The text of a folder's config.json; "" if it is not there, or describes no model.
std::string transformers_config_in(const std::filesystem::path& folder);

}  // namespace zero
