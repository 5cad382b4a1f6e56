#include "zero/checkpoint/safetensors/companion_files.h"

#include <algorithm>
#include <system_error>

#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/checkpoint/safetensors/published_config.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored);
}

void remove_file(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  if (error) throw IoError(file.string(), "remove", error.value());
}

bool is_one_folder(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  return fs::equivalent(one, other, ignored);
}

}  // namespace

bool has_tokenizer_files(const fs::path& folder) {
  return std::ranges::any_of(kTokenizerFiles, [&](std::string_view name) { return is_there(folder / name); });
}

void remove_tokenizer_files(const fs::path& folder) {
  for (const std::string_view name : kTokenizerFiles) remove_file(folder / name);
}

bool is_companion_name(std::string_view name) {
  return std::ranges::find(kTokenizerFiles, name) != kTokenizerFiles.end() || name == kGenerationConfig ||
         name == kClassesName || name == kWordsName;
}

std::vector<fs::path> copy_companion(std::string_view name, const fs::path& from, const fs::path& to) {
  if (from.empty() || !is_there(from / name) || is_one_folder(from, to)) return {};
  std::error_code error;
  fs::copy_file(from / name, to / name, fs::copy_options::overwrite_existing, error);
  if (error) throw IoError((to / name).string(), "write", error.value());
  return {to / name};
}

std::vector<fs::path> copy_tokenizer_files(const fs::path& from, const fs::path& to) {
  if (from.empty() || !has_tokenizer_files(from) || is_one_folder(from, to)) return {};
  std::vector<fs::path> copies;
  for (const std::string_view name : kTokenizerFiles) {
    if (!is_there(from / name)) remove_file(to / name);
    for (fs::path& copy : copy_companion(name, from, to)) copies.push_back(std::move(copy));
  }
  return copies;
}

std::vector<fs::path> copy_companion_files(const fs::path& from, const fs::path& to) {
  std::vector<fs::path> copies = copy_tokenizer_files(from, to);
  for (const std::string_view name : {kGenerationConfig, kClassesName, kWordsName})
    for (fs::path& copy : copy_companion(name, from, to)) copies.push_back(std::move(copy));
  return copies;
}

std::string classes_json(const std::vector<std::string>& names) {
  Json labels = Json::object(), numbers = Json::object();
  for (std::size_t label = 0; label < names.size(); ++label) {
    labels[std::to_string(label)] = names[label];
    numbers[names[label]] = label;
  }
  return Json{{"id2label", labels}, {"label2id", numbers}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<std::string> names_in_classes_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> names;
  if (!json.is_object()) return names;
  const Json labels = published_value(json, "id2label", Json::object());
  for (std::size_t label = 0; label < labels.size(); ++label) {
    const auto found = labels.find(std::to_string(label));
    if (found == labels.end() || !found->is_string()) return {};
    names.push_back(*found);
  }
  return names;
}

}  // namespace zero
