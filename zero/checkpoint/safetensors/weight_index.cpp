#include "zero/checkpoint/safetensors/weight_index.h"

#include <set>

#include <fmt/format.h>

#include "zero/base/files/strict_json.h"

namespace zero {
namespace {

// Refuses a zero byte, which JSON can write as \u0000: it ends the name that the system sees.
bool is_name_in_folder(std::string_view file) {
  return !file.empty() && file != "." && file != ".." && file.find_first_of(std::string_view("/\0", 2)) == file.npos;
}

// Quotes a name as JSON does, because a zero byte would also end the message.
std::string quoted(const std::string& name) {
  return fmt::format("{:.64}", nlohmann::json(name).dump());
}

}  // namespace

WeightMap parse_weight_index(std::string_view text, std::string_view path) {
  const nlohmann::json json = parse_strictly(text, path);
  if (json.is_object() && json.contains("metadata")) {
    require_keys(json, {"metadata", "weight_map"}, path);
    if (!json.at("metadata").is_object()) refuse_json(path, "its metadata is not an object");
  } else {
    require_keys(json, {"weight_map"}, path);
  }
  const nlohmann::json& weight_map = json.at("weight_map");
  if (!weight_map.is_object() || weight_map.empty()) refuse_json(path, "its weight_map is not an object of tensors");
  WeightMap files;
  std::set<std::string_view> names;
  for (const auto& [tensor, name] : weight_map.items()) {
    const std::string file = text_of(name, "the file of " + quoted(tensor), path);
    if (!is_name_in_folder(file)) refuse_json(path, quoted(file) + " is not the name of a file in its own folder");
    names.insert(files.emplace(tensor, file).first->second);
  }
  if (names.size() > kMostWeightFiles)
    refuse_json(path, fmt::format("names {} files; {} are allowed", names.size(), kMostWeightFiles));
  return files;
}

}  // namespace zero
