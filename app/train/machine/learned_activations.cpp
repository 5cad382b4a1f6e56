#include "app/train/machine/learned_activations.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <torch/version.h>

#include "app/train/machine/cache_file.h"
#include "app/train/machine/rate_cache.h"

namespace zero {

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
  const auto entries = read_cache(path_);
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
  keep_in_cache(path_, work_, bytes, "what activations took");
}

}  // namespace zero
