// Description: the contents of a file, as text and as JSON.
//
//   const Description description = describe_path("runs/x/model.safetensors");
//   fmt::print("{}", description.text);
//
// The content decides the kind if the format has a mark (safetensors, llm.c, IDX, gzip), else the extension (.csv,
// .bin). Every other file is text. Local. Throws ConfigError for a damaged file, with the damage.
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "zero/checkpoint/manifest.h"

namespace zero::cli {

struct Description {
  std::string text;
  nlohmann::ordered_json json;
};

Description describe_path(const std::filesystem::path& path, bool verify = false);

Description describe_safetensors(const std::filesystem::path& path);
Description describe_tokens(const std::filesystem::path& path, bool text);
Description describe_idx(const std::filesystem::path& path, int num_dimensions);
Description describe_csv(const std::filesystem::path& path);
// Describes a folder of safetensors without a run, as written by `zero export` and Hugging Face.
Description describe_weights(const std::filesystem::path& folder);
// With `verify`, reads every byte of the run's checkpoints.
Description describe_run(const std::filesystem::path& folder, bool verify);
Description describe_checkpoint(const std::filesystem::path& folder, bool verify);

// A checkpoint's manifest, as far as it can be read, and its damage; "" if none was found.
struct CheckpointHealth {
  Manifest manifest;
  std::string damage;
};
CheckpointHealth look_at_checkpoint(const std::filesystem::path& folder, bool verify);

}  // namespace zero::cli
