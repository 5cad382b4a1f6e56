// Description: the contents of a file, as text and as JSON.
//
// Formats with a mark (safetensors, llm.c, IDX, gzip, JSON lines) are found by content, others by their extension
// (.csv, .tsv, .jsonl, .bin). All other files are text.
//
// Local. Throws ConfigError with the fault of a damaged file. For a file that no data.kind reads, such as Parquet, the
// error has a remedy.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "zero/checkpoint/image/manifest.h"

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
Description describe_tsv(const std::filesystem::path& path);
// No data.kind reads them: says how they become a text or a table.
Description describe_json_lines(const std::filesystem::path& path);
// `bytes`: the first ones of a file, with all of its first line.
bool begins_with_json_line(std::string_view bytes);
// A folder of safetensors without a run, as `zero export` and Hugging Face write it.
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
