#include "app/train/weights/weights.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/files/sha256.h"
#include "zero/base/numbers/dtype.h"
#include "zero/base/text/bytes.h"
#include "zero/torch/attached/rank_extras.h"
#include "zero/torch/deferred/tagged_tensor.h"
#include "zero/torch/module/module_parameters.h"

namespace zero {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kKey = "model.init";

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(kKey, path, reason, "`zero inspect FILE` lists what a file holds; names are as in the model");
}

// The error of a file with bad contents begins with the file's name. Here the name of the option is put before it.
SafetensorsSet open_set(const fs::path& path) {
  try {
    return SafetensorsSet::open(path, kKey);
  } catch (const ConfigError& error) {
    if (error.key() == kKey) throw;
    throw ConfigError(kKey, "", error.what(), "");
  }
}

const ParamSpec* spec_named(const std::vector<ParamSpec>& specs, std::string_view name) {
  const auto found = std::ranges::find(specs, name, &ParamSpec::name);
  return found == specs.end() ? nullptr : &*found;
}

// Returns the row of a model: `told`, otherwise the row whose table of tokens is a parameter. Null: no row describes
// the module.
const ModelRow* row_for(const std::vector<ParamSpec>& specs, const ModelRow* told) {
  if (told != nullptr) return told;
  const auto* const found = std::ranges::find_if(
      kModelTable, [&](const ModelRow& row) { return spec_named(specs, row.token_weight) != nullptr; });
  return found == kModelTable.end() ? nullptr : found;
}

// Returns the rows whose names a file may use: all rows, if no row describes the module.
std::span<const ModelRow> naming_rows(const ModelRow* row) {
  return row == nullptr ? std::span<const ModelRow>(kModelTable) : std::span(row, 1);
}

// Returns the table of tokens if it is also the head; null: the head is a separate parameter, or there is none.
const ParamSpec* tied_to_head(const std::vector<ParamSpec>& specs, const ModelRow* row) {
  if (row == nullptr || row->files.tied_head.empty() || spec_named(specs, row->files.tied_head)) return nullptr;
  return spec_named(specs, row->token_weight);
}

// Returns a parameter's tensor: under its own name, without the prefix, or under the name in old files. Null: none.
const SafetensorsSet::Tensor* find_published(const SafetensorsSet& set, std::string_view name, const ModelRow* row) {
  std::vector<std::string> names{std::string(name)};
  for (const ModelRow& each : naming_rows(row))
    if (!each.files.prefix.empty() && name.starts_with(each.files.prefix))
      names.emplace_back(name.substr(each.files.prefix.size()));
  for (std::size_t i = 0, count = names.size(); i < count; ++i) {
    for (const ModelRow& each : naming_rows(row))
      for (const auto& [now, old] : each.files.old_endings)
        if (names[i].ends_with(now)) names.push_back(names[i].substr(0, names[i].size() - now.size()).append(old));
  }
  for (const std::string& each : names)
    if (const SafetensorsSet::Tensor* tensor = set.find(each)) return tensor;
  return nullptr;
}

// Returns the new heads that the file lacks: a model for another task has no such heads, and they must be trained.
std::vector<std::string_view> lacking_heads(const SafetensorsSet& set, const ModelRow* row) {
  std::vector<std::string_view> lacking;
  if (row == nullptr) return lacking;
  for (const std::string_view head : row->files.new_heads)
    if (std::ranges::none_of(set.tensors(), [&](const auto& t) { return row->files.is_of(head, t.entry->name); }))
      lacking.push_back(head);
  return lacking;
}

bool is_weight_type(ElementType type) {
  return dtype_of(type).has_value();
}

// Throws for weights of another vocabulary. The error names the data's tokens instead of a shape, because they are the
// cause.
void require_vocabulary(const SafetensorsEntry& entry, const ParamSpec& spec, const std::string& path,
                        const std::string& vocabulary) {
  if (vocabulary.empty()) return;
  if (entry.shape.size() != 2 || entry.shape[1] != spec.shape[1] || entry.shape[0] == spec.shape[0]) return;
  throw ConfigError(kKey, path,
                    fmt::format("{} has {} tokens, and {} {}: they were not made for each other", entry.name,
                                entry.shape[0], vocabulary, spec.shape[0]),
                    "use the tokenizer or vocabulary of these weights, or leave out model.init");
}

void require_shape(const SafetensorsEntry& entry, const std::vector<std::int64_t>& shape, const std::string& path) {
  if (entry.shape != shape) {
    refuse(path, fmt::format("{} has shape [{}], and the model has [{}]", entry.name, fmt::join(entry.shape, ", "),
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

// Reads in pieces if the file has another type.
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

// Returns each buffer once, under its own name.
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

// Removes temporary files of killed writers.
void remove_leftovers(const fs::path& path) {
  const std::string prefix = path.filename().string() + ".tmp-";
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(path.has_parent_path() ? path.parent_path() : ".", ignored))
    if (entry.path().filename().string().starts_with(prefix)) leftovers.push_back(entry.path());
  for (const fs::path& leftover : leftovers) fs::remove(leftover, ignored);
}

// `hash`: receives the bytes of the parameters as they are written; null: none.
void write_and_hash(EngineOfRun engine, const torch::nn::Module& module, std::unique_ptr<SafetensorsWriter> file,
                    Sha256* hash) {
  engine.for_each_parameter([&](const std::string& name, const torch::Tensor& tensor) {
    if (!file) return;
    file->write(name, 0, bytes_of(tensor));
    if (hash != nullptr) hash->update(bytes_of(tensor));
  });
  if (!file) return;
  for (const Extra& buffer : buffers_of(module)) file->write(buffer.name, 0, buffer.bytes);
  file->commit();
}

}  // namespace

MatchedWeights match_weights(const SafetensorsSet& set, const std::vector<ParamSpec>& specs, const std::string& path,
                             const std::string& vocabulary, const ModelRow* row) {
  row = row_for(specs, row);
  MatchedWeights found;
  std::vector<SafetensorsSet::Tensor>& matched = found.tensors;
  std::vector<std::string> missing;
  std::set<std::string_view> used;
  const std::vector<std::string_view> new_heads = lacking_heads(set, row);
  const auto is_new = [&](const std::string& name) {
    return std::ranges::any_of(new_heads, [&](std::string_view head) { return row->files.is_of(head, name); });
  };
  for (const std::string_view head : new_heads)
    found.notes.push_back(fmt::format("note: {} has no {}, which begins with random values", path, head));
  for (const ParamSpec& spec : specs) {
    const SafetensorsSet::Tensor* const tensor = find_published(set, spec.name, row);
    if (tensor != nullptr) used.insert(tensor->entry->name);
    if (tensor == nullptr && !is_new(spec.name)) missing.push_back(spec.name);
    matched.push_back(tensor == nullptr ? SafetensorsSet::Tensor{} : *tensor);
  }
  if (missing.size() == 1 && std::ranges::any_of(naming_rows(row), [&](const ModelRow& each) {
        return each.files.tied_head == missing.front();
      }))
    refuse(path,
           "has no " + missing.front() + ": its head shares the token embedding; set model.tie_embeddings = true");
  if (!missing.empty()) refuse(path, "has no " + first_few(missing));
  const ParamSpec* const tied = tied_to_head(specs, row);
  std::vector<std::string> extra, passed_over;
  for (const auto& [entry, file] : set.tensors()) {
    if (used.contains(entry->name)) continue;
    if (row != nullptr && row->files.passes_over(entry->name)) {
      passed_over.push_back(entry->name);
    } else if (tied != nullptr && entry->name == row->files.tied_head) {
      require_shape(*entry, tied->shape, path);
      found.notes.push_back(
          fmt::format("note: {} of {} is skipped: the head of this model is {}", entry->name, path, tied->name));
    } else {
      extra.push_back(entry->name);
    }
  }
  if (!extra.empty()) refuse(path, "holds tensors that the model does not have: " + first_few(extra));
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (matched[i].entry != nullptr && row != nullptr && specs[i].name == row->token_weight)
      require_vocabulary(*matched[i].entry, specs[i], path, vocabulary);
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (matched[i].entry != nullptr) require_shape(*matched[i].entry, specs[i].shape, path);
  if (!passed_over.empty())
    found.notes.push_back(
        fmt::format("note: skipped in {}, because this model has no such weights: {}", path, first_few(passed_over)));
  return found;
}

InitialWeights::InitialWeights(const torch::nn::Module& module, const std::filesystem::path& path, std::uint64_t seed,
                               const std::string& vocabulary, const ModelRow* row)
    : set_(open_set(path)), seed_(seed) {
  const auto specs = parameters_of(module, std::nullopt).specs;
  MatchedWeights matched = match_weights(set_, specs, path.string(), vocabulary, row);
  for (std::size_t i = 0; i < specs.size(); ++i) tensors_.emplace(specs[i].name, matched.tensors[i]);
  notes_ = std::move(matched.notes);
  row = row_for(specs, row);
  if (row != nullptr) new_heads_ = row->files.new_heads;
}

void InitialWeights::read(const std::string& name, std::span<float> values) const {
  const SafetensorsSet::Tensor& tensor = tensors_.at(name);
  if (tensor.entry != nullptr) return read_as_fp32(tensor, values);
  // A head that the file lacks: weights are drawn from a normal distribution with deviation 0.02, as in new models
  // here; biases are 0. Each head has its own seed.
  const auto head = std::ranges::find_if(new_heads_, [&](std::string_view each) {
    return name.starts_with(each) && name.substr(each.size()).starts_with('.');
  });
  auto generator =
      at::make_generator<at::CPUGeneratorImpl>(seed_ + static_cast<std::uint64_t>(head - new_heads_.begin()));
  torch::Tensor drawn = at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat);
  if (name.ends_with(".bias"))
    drawn.zero_();
  else
    drawn.normal_(0, 0.02, generator);
}

WeightSource InitialWeights::source() const {
  return [this](const std::string& name, std::span<float> values) { read(name, values); };
}

void read_weights(torch::nn::Module& module, const std::filesystem::path& path) {
  const SafetensorsSet set = open_set(path);
  ModuleParameters parameters = parameters_of(module, std::nullopt);
  const std::vector<SafetensorsSet::Tensor> matched = match_weights(set, parameters.specs, path.string()).tensors;
  for (std::size_t i = 0; i < matched.size(); ++i) {
    if (matched[i].entry == nullptr) refuse(path.string(), "has no " + parameters.specs[i].name);
    replace_data(parameters.tensors[i], read_tensor(matched[i]));
  }
}

void read_weights(torch::nn::Module& module, CheckpointReader& checkpoint) {
  ModuleParameters parameters = parameters_of(module, std::nullopt);
  for (std::size_t i = 0; i < parameters.specs.size(); ++i) {
    const ParamSpec& spec = parameters.specs[i];
    const int index = checkpoint.find(spec.name);
    if (index < 0 || checkpoint.manifest().tensors[static_cast<std::size_t>(index)].shape != spec.shape)
      throw ConfigError(
          "RUN", checkpoint.path().string(),
          fmt::format("{} {}", index < 0 ? "has no" : "has another shape of", spec.name),
          "its configuration and its states do not match: it is damaged, or no checkpoint of `zero train`");
    torch::Tensor values = at::empty(spec.shape, at::kFloat);
    checkpoint.read(index, 0, 0, {values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())});
    replace_data(parameters.tensors[i], values);
  }
}

std::unique_ptr<SafetensorsWriter> open_weights(EngineOfRun engine, const torch::nn::Module& module,
                                                const fs::path& path, std::string_view what) {
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
        fmt::format("has no room for {} that the run writes at its end, {}: {}", what, format_bytes(file->size_bytes()),
                    std::generic_category().message(error.error_number())),
        "set run.dir to a disk with more room");
  }
  return file;
}

std::string save_weights(EngineOfRun engine, const torch::nn::Module& module, std::unique_ptr<SafetensorsWriter> file) {
  const auto& specs = engine.parameters();
  const bool all_fp32 =
      std::all_of(specs.begin(), specs.end(), [](const ParamSpec& s) { return s.dtype == DType::kFloat32; });
  std::optional<Sha256> hash;
  if (file) hash.emplace();
  write_and_hash(engine, module, std::move(file), all_fp32 && hash ? &*hash : nullptr);
  if (!all_fp32) {
    engine.for_each_parameter(
        [&](const std::string&, const torch::Tensor& tensor) {
          if (hash) hash->update(bytes_of(tensor));
        },
        /*full_precision=*/true);
  }
  return hash ? hash->finish_hex() : "";
}

void write_weights(EngineOfRun engine, const torch::nn::Module& module, std::unique_ptr<SafetensorsWriter> file) {
  write_and_hash(engine, module, std::move(file), nullptr);
}

}  // namespace zero
