#include "zero/train/learned_activations.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <torch/version.h>

#include "zero/base/file.h"
#include "zero/base/log.h"
#include "zero/train/rate_cache.h"

namespace zero {
namespace {

using Json = nlohmann::ordered_json;

Json read(const std::filesystem::path& path) {
  std::ifstream file(path);
  Json entries = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  return entries.is_object() ? entries : Json::object();
}

}  // namespace

std::string activation_work(const ModelOptions& model, const SampleShape& shape, std::int64_t batch, DType dtype,
                            std::string_view gpu) {
  return fmt::format(
      "{}, torch {}, {} of {} layers, width {}, heads {} and {}, hidden {}, sizes [{}], context {}, vocab {}, {}{}{}, "
      "samples of {} tokens, {} features, {} channels, {} and {} classes, batch {}, {}",
      gpu, TORCH_VERSION, model.name, model.layers, model.width, model.heads, model.kv_heads, model.hidden,
      fmt::join(model.sizes, ", "), model.context, model.vocab,
      model.checkpoint_activations ? "activation checkpoints" : "all activations",
      model.activation_offload ? " elsewhere" : "", model.dropout > 0 ? ", dropout" : "", shape.context, shape.features,
      shape.channels, shape.classes, shape.vocab, batch, name_of(dtype));
}

std::filesystem::path LearnedActivations::default_path() {
  return RateCache::default_path().parent_path() / "activations.json";
}

LearnedActivations::LearnedActivations(std::string work, std::filesystem::path path)
    : work_(std::move(work)), path_(std::move(path)) {
  const Json entries = read(path_);
  const auto entry = entries.find(work_);
  if (entry != entries.end() && entry->is_number_integer())
    bytes_ = std::max(entry->get<std::int64_t>(), std::int64_t{0});
}

void LearnedActivations::took(std::int64_t torch_bytes) {
  if (torch_bytes <= most_) return;
  most_ = torch_bytes;
  if (most_ != bytes_) keep(most_);
}

bool LearnedActivations::lacked(const Full& full) {
  const std::int64_t left = std::max(full.torch, bytes_);
  const std::int64_t next = std::min(std::max(full.torch + full.asked, left + left / 2), full.torch + full.held);
  if (next <= bytes_) return false;
  keep(next);
  return true;
}

void LearnedActivations::keep(std::int64_t bytes) {
  bytes_ = bytes;
  try {
    std::filesystem::create_directories(path_.parent_path());
    Json entries = read(path_);
    entries[work_] = bytes;
    write_file(path_, entries.dump(1) + "\n");
  } catch (const std::exception& error) {
    ZERO_LOG(warn, "what activations took cannot be kept for the next run: {}", error.what());
  }
}

}  // namespace zero
