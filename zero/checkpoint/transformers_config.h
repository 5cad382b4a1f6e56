// transformers_config(): the config.json with which Hugging Face's transformers loads a model from the folder of its
// model.safetensors, or of shards and their index:
//
//   write_file(folder / "config.json", transformers_config({.kind = PublishedKind::kGpt2, .layers = 4, .width = 128,
//                                                           .heads = 4, .context = 64, .vocab = 256}, dtype));
//
// Python: transformers.AutoModelForCausalLM.from_pretrained("folder"), and AutoModelForSequenceClassification of a bert.
// The config.json of published first weights is the base: keys that zero.cpp does not know, and keys that say the
// same, stay as they are. Values; Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/dtype.h"

namespace zero {

// Models whose names and layouts are Hugging Face's: those of zero/models/gpt2.h, llama.h and bert.h.
enum class PublishedKind : std::uint8_t { kGpt2, kLlama, kBert };

struct TransformersModel {
  PublishedKind kind = PublishedKind::kGpt2;
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // of a llama
  std::int64_t hidden = 0;    // of the feed-forward part: of a llama and a bert
  std::int64_t context = 0;
  std::int64_t vocab = 0;
  std::int64_t classes = 0;  // of a bert
  std::int64_t pad = 0;      // of a bert: the token that fills short texts
  double dropout = 0;
  double rope_theta = 10000;  // this and the rest: of a llama
  double norm_eps = 1e-5;
  bool tie_embeddings = false;
  std::vector<std::string>
      class_names{};  // of a bert, in their order; empty: those of the base, or LABEL_0, LABEL_1, ...
};

// The weights in the file have type `dtype`. `base`: the config.json of its first weights, which describes
// the same kind of model; else it does not count.
std::string transformers_config(const TransformersModel& model, DType dtype, std::string_view base = "");

// Writes it into `folder`, in place of another of a model. Of a model that transformers does not know (absent) nothing is
// written. A config.json that is none of a model is somebody else's: it stays, and the result is false. Throws IoError.
bool write_transformers_config(const std::filesystem::path& folder, const std::optional<TransformersModel>& model,
                               DType dtype, std::string_view base = "");

// The text of a folder's config.json; "" if it is not there, or describes no model.
std::string transformers_config_in(const std::filesystem::path& folder);

}  // namespace zero
