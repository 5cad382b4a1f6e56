#include "zero/checkpoint/engines_folder.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/sha256.h"
#include "zero/base/files/strict_json.h"
#include "zero/checkpoint/read/checkpoint_reader.h"
#include "zero/checkpoint/safetensors/block_file.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnginesFormat = "zero.cpp checkpoint of several engines", kEnginePrefix = "engine-";
constexpr int kEnginesVersion = 1;
constexpr std::int64_t kMostEnginesBytes = std::int64_t{1} << 20;

std::string sum_of_manifest(const Manifest& manifest) {
  const std::string text = to_text(manifest);
  return sha256_hex(std::as_bytes(std::span(text)));
}

bool is_part_of_engines(const fs::path& path) {
  if (path.filename() == kEnginesName) return true;
  return is_folder_of_engine(path) && std::ranges::all_of(paths_in(path), is_part_of_checkpoint);
}

}  // namespace

fs::path part_of_engines(const fs::path& path, int index) {
  return path / fmt::format("{}{}", kEnginePrefix, index);
}

bool is_folder_of_engine(const fs::path& path) {
  std::error_code ignored;
  return path.filename().string().starts_with(kEnginePrefix) && fs::is_directory(fs::symlink_status(path, ignored));
}

EnginesFolder::EnginesFolder(fs::path path, const FileCalls& calls) : folder_(std::move(path), calls), calls_(calls) {}

fs::path EnginesFolder::part(int index) const {
  return part_of_engines(folder_.temporary(), index);
}

void EnginesFolder::make() const {
  folder_.make(is_part_of_engines);
}

void EnginesFolder::publish(int num_engines) {
  nlohmann::json sums = nlohmann::json::array();
  for (int index = 0; index < num_engines; ++index) sums.push_back(sum_of_manifest(read_manifest(part(index), calls_)));
  const std::string text =
      nlohmann::json{{"format", kEnginesFormat}, {"version", kEnginesVersion}, {"manifests", std::move(sums)}}.dump() +
      "\n";
  BlockFileWriter writer((folder_.temporary() / kEnginesName).string(), std::ssize(text), calls_);
  writer.append(std::as_bytes(std::span(text)));
  writer.finish();
  folder_.publish();
}

std::vector<std::string> read_engines(const fs::path& path, const FileCalls& calls) {
  const SourceFolder folder(path, calls);
  const std::string name(kEnginesName), file = folder.path_of(name);
  const nlohmann::json json = parse_strictly(folder.read_text(name, kMostEnginesBytes), file);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kEnginesFormat ||
      json.value("version", nlohmann::json()) != kEnginesVersion)
    refuse_json(file, fmt::format("it is not a \"{}\" of version {}", kEnginesFormat, kEnginesVersion));
  require_keys(json, {"format", "version", "manifests"}, file);
  std::vector<std::string> sums;
  for (const nlohmann::json& sum : array_of(json["manifests"], "manifests", file))
    sums.push_back(text_of(sum, "a manifest's sum", file));
  return sums;
}

void require_saved_with(const std::vector<std::string>& sums, int index, const Manifest& manifest,
                        const fs::path& path) {
  if (sum_of_manifest(manifest) == sums[static_cast<std::size_t>(index)]) return;
  throw IoError(part_of_engines(path, index).string(), "checkpoint", 0,
                fmt::format("it does not belong to the save that {} names", kEnginesName));
}

}  // namespace zero
