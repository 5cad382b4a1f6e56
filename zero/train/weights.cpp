#include "zero/train/weights.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/ops/empty.h>

#include "zero/base/bytes.h"
#include "zero/base/check.h"
#include "zero/base/dtype.h"
#include "zero/base/error.h"
#include "zero/base/log.h"
#include "zero/base/sha256.h"
#include "zero/torch/module_parameters.h"
#include "zero/torch/rank_extras.h"
#include "zero/torch/tagged_tensor.h"

namespace zero {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kKey = "model.init";
constexpr std::string_view kPrefix = "transformer.";
constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kTokens = "transformer.wte.weight";

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(kKey, path, reason, "`zero inspect FILE` lists what a file holds; names are as in the model");
}

// Published files carry the causal masks, which are no weights.
bool is_mask(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

bool is_weight_type(ElementType type) {
  return dtype_of(type).has_value();
}

void require_shape(const SafetensorsEntry& entry, const std::vector<std::int64_t>& shape, const std::string& path) {
  if (entry.shape != shape) {
    refuse(path, fmt::format("{} has shape [{}], the model wants [{}]", entry.name, fmt::join(entry.shape, ", "),
                             fmt::join(shape, ", ")));
  }
  if (!is_weight_type(entry.dtype)) {
    refuse(path, fmt::format("{} is {}; weights are F32, F16 or BF16", entry.name, name_of(entry.dtype)));
  }
}

std::string first_few(const std::vector<std::string>& names) {
  const auto shown = std::min<std::size_t>(names.size(), 4);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

constexpr std::size_t kPieceNumel = std::size_t{1} << 19;

// Piece by piece where the file has another type.
void read_as_fp32(const SafetensorsSet::Tensor& tensor, std::span<float> values) {
  const SafetensorsEntry& entry = *tensor.entry;
  ZERO_CHECK(std::ssize(values) == entry.numel(), "{} elements of {}", values.size(), entry.name);
  if (entry.dtype == ElementType::kF32) return tensor.file->read(entry, 0, std::as_writable_bytes(values));
  std::vector<std::uint16_t> piece;
  for (std::size_t begin = 0; begin < values.size(); begin += kPieceNumel) {
    piece.resize(std::min(kPieceNumel, values.size() - begin));
    tensor.file->read(entry, static_cast<std::int64_t>(begin * sizeof(std::uint16_t)),
                      std::as_writable_bytes(std::span(piece)));
    convert_elements(reinterpret_cast<const std::byte*>(piece.data()), dtype_of(entry.dtype).value(),
                     reinterpret_cast<std::byte*>(values.data() + begin), DType::kFloat32, std::ssize(piece));
  }
}

torch::Tensor read_tensor(const SafetensorsSet::Tensor& source) {
  const auto& [entry, file] = source;
  const bool bf16 = entry->dtype == ElementType::kBF16;
  torch::Tensor tensor = at::empty(entry->shape, bf16 ? at::kBFloat16 : at::kFloat);
  if (bf16) {
    file->read(*entry, 0, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
  } else {
    read_as_fp32(source, {static_cast<float*>(tensor.mutable_data_ptr()), static_cast<std::size_t>(tensor.numel())});
  }
  return tensor;
}

std::span<const std::byte> bytes_of(const torch::Tensor& tensor) {
  ZERO_CHECK(tensor.is_contiguous() && tensor.is_cpu());
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// Each once, under its own name.
std::vector<Extra> buffers_of(const torch::nn::Module& module) {
  NamedBuffers named;
  std::set<const at::TensorImpl*> seen;
  for (const auto& item : module.named_buffers())
    if (item.value().defined() && seen.insert(item.value().unsafeGetTensorImpl()).second)
      named.emplace_back(item.key(), item.value());
  std::vector<Extra> buffers = extras_of(named, /*with_generator=*/false);
  std::erase_if(buffers, [](const Extra& extra) { return !extra.name.starts_with(kBufferPrefix); });
  for (Extra& buffer : buffers) buffer.name.erase(0, kBufferPrefix.size());
  return buffers;
}

// Temporary files of writers that were killed.
void remove_leftovers(const fs::path& path) {
  const std::string prefix = path.filename().string() + ".tmp-";
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(path.has_parent_path() ? path.parent_path() : ".", ignored))
    if (entry.path().filename().string().starts_with(prefix)) leftovers.push_back(entry.path());
  for (const fs::path& leftover : leftovers) fs::remove(leftover, ignored);
}

}  // namespace

std::vector<SafetensorsSet::Tensor> match_weights(const SafetensorsSet& set, const std::vector<ParamSpec>& specs,
                                                  const std::string& path) {
  std::vector<SafetensorsSet::Tensor> matched;
  std::vector<std::string> missing;
  std::set<std::string_view> used;
  const ParamSpec* tokens = nullptr;
  for (const ParamSpec& spec : specs) {
    const SafetensorsSet::Tensor* tensor = set.find(spec.name);
    if (tensor == nullptr && spec.name.starts_with(kPrefix))
      tensor = set.find(std::string_view(spec.name).substr(kPrefix.size()));
    if (spec.name == kTokens) tokens = &spec;
    if (tensor == nullptr) {
      missing.push_back(spec.name);
    } else {
      matched.push_back(*tensor);
      used.insert(tensor->entry->name);
    }
  }
  if (!missing.empty()) refuse(path, "has no " + first_few(missing));
  std::vector<std::string> extra;
  for (const auto& [entry, file] : set.tensors()) {
    if (used.contains(entry->name)) continue;
    if (tokens != nullptr && is_mask(entry->name)) {
      ZERO_LOG(info, "{}: {} is a constant mask, not a weight: passed over", path, entry->name);
    } else if (tokens != nullptr && entry->name == kHead) {
      require_shape(*entry, tokens->shape, path);
      ZERO_LOG(info, "{}: {} is tied to {}: passed over", path, entry->name, tokens->name);
    } else {
      extra.push_back(entry->name);
    }
  }
  if (!extra.empty()) refuse(path, "holds what the model does not have: " + first_few(extra));
  for (std::size_t i = 0; i < specs.size(); ++i) require_shape(*matched[i].entry, specs[i].shape, path);
  return matched;
}

InitialWeights::InitialWeights(const torch::nn::Module& module, const std::filesystem::path& path)
    : set_(SafetensorsSet::open(path, kKey)) {
  const auto specs = parameters_of(module, std::nullopt).specs;
  const auto matched = match_weights(set_, specs, path.string());
  for (std::size_t i = 0; i < specs.size(); ++i) tensors_.emplace(specs[i].name, matched[i]);
}

void InitialWeights::read(const std::string& name, std::span<float> values) const {
  read_as_fp32(tensors_.at(name), values);
}

WeightSource InitialWeights::source() const {
  return [this](const std::string& name, std::span<float> values) { read(name, values); };
}

void read_weights(torch::nn::Module& module, const std::filesystem::path& path) {
  const auto set = SafetensorsSet::open(path, kKey);
  ModuleParameters parameters = parameters_of(module, std::nullopt);
  const auto matched = match_weights(set, parameters.specs, path.string());
  for (std::size_t i = 0; i < matched.size(); ++i) replace_data(parameters.tensors[i], read_tensor(matched[i]));
}

void read_weights(torch::nn::Module& module, CheckpointReader& checkpoint) {
  ModuleParameters parameters = parameters_of(module, std::nullopt);
  for (std::size_t i = 0; i < parameters.specs.size(); ++i) {
    const ParamSpec& spec = parameters.specs[i];
    const int index = checkpoint.find(spec.name);
    if (index < 0 || checkpoint.manifest().tensors[static_cast<std::size_t>(index)].shape != spec.shape)
      throw ConfigError("RUN", checkpoint.path().string(),
                        fmt::format("{} {}", index < 0 ? "has no" : "has another shape of", spec.name),
                        "its configuration is not that of its states: it is damaged, or no checkpoint of `zero train`");
    torch::Tensor values = at::empty(spec.shape, at::kFloat);
    checkpoint.read(index, 0, 0, {values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())});
    replace_data(parameters.tensors[i], values);
  }
}

std::unique_ptr<SafetensorsWriter> open_weights(const Attachment& engine, const torch::nn::Module& module,
                                                const fs::path& path) {
  remove_leftovers(path);
  std::vector<SafetensorsEntry> entries;
  for (const ParamSpec& spec : engine.parameters())
    entries.push_back({.name = spec.name, .dtype = element_type_of(spec.dtype), .shape = spec.shape});
  for (const Extra& buffer : buffers_of(module))
    entries.push_back({.name = buffer.name, .dtype = buffer.dtype, .shape = buffer.shape});
  auto file = std::make_unique<SafetensorsWriter>(path, std::move(entries));
  try {
    file->reserve();
  } catch (const IoError& error) {
    if (error.error_number() != ENOSPC && error.error_number() != EDQUOT) throw;
    throw ConfigError(
        "run.dir", path.parent_path().string(),
        fmt::format("has no room for the weights that the run ends with, {}: {}", format_bytes(file->size_bytes()),
                    std::generic_category().message(error.error_number())),
        "name a run.dir on a disk with more room");
  }
  return file;
}

std::string save_weights(Attachment& engine, const torch::nn::Module& module, std::unique_ptr<SafetensorsWriter> file) {
  const auto& specs = engine.parameters();
  const bool all_fp32 =
      std::all_of(specs.begin(), specs.end(), [](const ParamSpec& s) { return s.dtype == DType::kFloat32; });
  std::optional<Sha256> hash;
  if (file) hash.emplace();
  engine.for_each_parameter([&](const std::string& name, const torch::Tensor& tensor) {
    if (!file) return;
    file->write(name, 0, bytes_of(tensor));
    if (all_fp32) hash->update(bytes_of(tensor));
  });
  if (file) {
    for (const Extra& buffer : buffers_of(module)) file->write(buffer.name, 0, buffer.bytes);
    file->commit();
  }
  if (!all_fp32) {
    engine.for_each_parameter(
        [&](const std::string&, const torch::Tensor& tensor) {
          if (hash) hash->update(bytes_of(tensor));
        },
        /*full_precision=*/true);
  }
  return hash ? hash->finish_hex() : "";
}

}  // namespace zero
