// transformers_config(): the config.json with which Hugging Face's transformers loads a GPT-2 from the folder of its
// model.safetensors, or of shards and their index:
//
//   write_file(folder / "config.json", transformers_config({.layers = 4, .width = 128, .heads = 4, .context = 64,
//                                                           .vocab = 256, .dropout = 0, .dtype = DType::kFloat32}));
//
// Python: transformers.GPT2LMHeadModel.from_pretrained("folder"). Values; Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "zero/base/dtype.h"

namespace zero {

struct TransformersGpt2 {
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t context = 0;
  std::int64_t vocab = 0;
  double dropout = 0;
  DType dtype = DType::kFloat32;  // of the weights in the file
};

std::string transformers_config(const TransformersGpt2& model);

// Writes it into `folder`, in place of another of a model. A config.json that is none of a model is somebody else's: it
// stays, and the result is false. Throws IoError.
bool write_transformers_config(const std::filesystem::path& folder, const TransformersGpt2& model);

}  // namespace zero
