// What a file contains, for people and for programs.
//
// The kind is found by content where the format has a mark (safetensors, llm.c, IDX, gzip), else by extension (.csv,
// .bin); everything else is text. A damaged file is a ConfigError that says what is wrong with it.
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace zero::cli {

struct Description {
  std::string text;
  nlohmann::ordered_json json;
};

Description describe_path(const std::filesystem::path& path);

Description describe_safetensors(const std::filesystem::path& path);
Description describe_tokens(const std::filesystem::path& path, bool text);
Description describe_idx(const std::filesystem::path& path, int num_dimensions);
Description describe_csv(const std::filesystem::path& path);
Description describe_run(const std::filesystem::path& folder);

}  // namespace zero::cli
