#include "zero/checkpoint/image/manifest.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "zero/base/files/sha256.h"
#include "zero/base/files/strict_json.h"

namespace zero {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "zero.cpp checkpoint";
constexpr int kVersion = 2;
constexpr std::size_t kMostShapeDimensions = 16;
constexpr std::size_t kMostSavedStates = 1024;
constexpr std::size_t kMostTensorStates = 20'000'000;  // of all tensors together: a reader has a list for each of them
// A manifest is kHead, 64 digits, kMiddle, the text whose SHA-256 these digits are, kTail. So every byte is verified,
// and the whole is JSON.
constexpr std::string_view kHead = "{\"sha256\":\"", kMiddle = "\",\"manifest\":", kTail = "}\n";
constexpr std::size_t kDigits = 64;

Json json_of(const SavedTensor& tensor) {
  return {
      {"name", tensor.name},           {"shape", tensor.shape},     {"dtype", name_of(element_type_of(tensor.dtype))},
      {"trainable", tensor.trainable}, {"updates", tensor.updates}, {"aliases", tensor.aliases}};
}

Json json_of(const SavedFile& file) {
  Json slices = Json::array(), extras = Json::array(), sums = Json::array();
  for (const SavedSlice& slice : file.slices)
    slices.push_back({slice.tensor, slice.state, slice.begin, slice.numel, slice.offset});
  for (const SavedExtra& extra : file.extras)
    extras.push_back({{"name", extra.name},
                      {"dtype", name_of(extra.dtype)},
                      {"shape", extra.shape},
                      {"offset", extra.offset},
                      {"bytes", extra.size_bytes}});
  for (const std::uint64_t sum : file.content.sums) sums.push_back(fmt::format("{:016x}", sum));
  return {{"name", file.name},
          {"bytes", file.content.size_bytes},
          {"xxh3", std::move(sums)},
          {"slices", std::move(slices)},
          {"extras", std::move(extras)}};
}

std::vector<std::int64_t> shape_of(const Json& json, std::string_view path) {
  std::vector<std::int64_t> shape;
  for (const Json& size : array_of(json, "a shape", path)) shape.push_back(natural(size, "a size", path));
  if (shape.size() > kMostShapeDimensions)
    refuse_json(path, fmt::format("a shape has more than {} dimensions", kMostShapeDimensions));
  std::int64_t numel = 1;
  for (const std::int64_t size : shape)
    if (__builtin_mul_overflow(numel, size, &numel) || numel > (std::int64_t{1} << 58))
      refuse_json(path, "a shape is too large");
  return shape;
}

SavedTensor tensor_of(const Json& json, std::string_view path) {
  require_keys(json, {"name", "shape", "dtype", "trainable", "updates", "aliases"}, path);
  SavedTensor tensor{.name = text_of(json["name"], "a name", path),
                     .shape = shape_of(json["shape"], path),
                     .updates = natural(json["updates"], "updates", path)};
  const std::string name = text_of(json["dtype"], "a dtype", path);
  const std::optional<ElementType> type = element_type_of(name);
  const std::optional<DType> dtype = type ? dtype_of(*type) : std::nullopt;
  if (!dtype) refuse_json(path, fmt::format("a parameter is saved as {:.16}", name));
  tensor.dtype = *dtype;
  if (!json["trainable"].is_boolean()) refuse_json(path, "\"trainable\" is neither true nor false");
  tensor.trainable = json["trainable"].get<bool>();
  for (const Json& alias : array_of(json["aliases"], "aliases", path))
    tensor.aliases.push_back(text_of(alias, "an alias", path));
  return tensor;
}

std::uint64_t sum_of(const Json& json, std::string_view path) {
  const std::string text = text_of(json, "a sum", path);
  std::uint64_t sum = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16)
    refuse_json(path, fmt::format("\"{:.32}\" is not a checksum", text));
  return sum;
}

SavedExtra extra_of(const Json& json, std::string_view path) {
  require_keys(json, {"name", "dtype", "shape", "offset", "bytes"}, path);
  const auto dtype = element_type_of(text_of(json["dtype"], "a dtype", path));
  if (!dtype) refuse_json(path, "an extra has a dtype that safetensors does not know");
  SavedExtra extra{.name = text_of(json["name"], "a name", path),
                   .dtype = *dtype,
                   .shape = shape_of(json["shape"], path),
                   .offset = natural(json["offset"], "an offset", path),
                   .size_bytes = natural(json["bytes"], "bytes", path)};
  const std::int64_t numel =
      std::accumulate(extra.shape.begin(), extra.shape.end(), std::int64_t{1}, std::multiplies());
  const std::int64_t bits = numel > (std::int64_t{1} << 50) ? -1 : numel * bits_of(extra.dtype);
  if (bits < 0 || bits % 8 != 0 || bits / 8 != extra.size_bytes)
    refuse_json(path, fmt::format("{:.64} does not have the bytes of its shape", extra.name));
  return extra;
}

// Returns true for one component of a path: a manifest must not name files outside its folder.
bool is_file_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 128 && name.front() != '.' && std::ranges::all_of(name, allowed);
}

SavedFile file_of(const Json& json, std::string_view path) {
  require_keys(json, {"name", "bytes", "xxh3", "slices", "extras"}, path);
  SavedFile file{.name = text_of(json["name"], "a name", path)};
  if (!is_file_name(file.name))
    refuse_json(path, fmt::format("\"{:.64}\" is not the name of a file in this folder", file.name));
  file.content.size_bytes = natural(json["bytes"], "bytes", path);
  for (const Json& sum : array_of(json["xxh3"], "xxh3", path)) file.content.sums.push_back(sum_of(sum, path));
  if (std::ssize(file.content.sums) != num_sum_blocks(file.content.size_bytes))
    refuse_json(
        path, fmt::format("{} has {} sums for {} bytes", file.name, file.content.sums.size(), file.content.size_bytes));
  for (const Json& slice : array_of(json["slices"], "slices", path)) {
    if (!slice.is_array() || slice.size() != 5) refuse_json(path, "a slice is five numbers");
    std::array<std::int64_t, 5> of{};
    for (std::size_t i = 0; i < of.size(); ++i) of[i] = natural(slice[i], "a slice's number", path);
    if (of[0] > 0x7fffffff || of[1] > 0x7fffffff) refuse_json(path, "a slice belongs to no tensor");
    if (of[3] == 0) refuse_json(path, "a slice holds nothing");
    file.slices.push_back({static_cast<int>(of[0]), static_cast<int>(of[1]), of[2], of[3], of[4]});
  }
  for (const Json& extra : array_of(json["extras"], "extras", path)) file.extras.push_back(extra_of(extra, path));
  return file;
}

void require_inside(const SavedFile& file, std::int64_t offset, std::int64_t bytes, std::string_view path) {
  if (offset > file.content.size_bytes || bytes > file.content.size_bytes - offset)
    refuse_json(path, fmt::format("{} has bytes listed beyond its end", file.name));
}

// Requires that every element of every state occurs once, inside its file. A tensor may lack states of the optimizer,
// and readers can ask which. A trained tensor has some of them, or is a matrix with states of rows and columns.
void check_cover(const Manifest& manifest, std::string_view path) {
  struct Part {
    int tensor, state;
    std::int64_t begin, numel;
  };
  std::vector<Part> parts;
  std::set<std::string_view> factored;  // tensors
  for (const SavedFile& file : manifest.files) {
    for (const SavedExtra& extra : file.extras) {
      require_inside(file, extra.offset, extra.size_bytes, path);
      const std::string_view name = extra.name;
      const std::size_t end = name.find('/', kFactorPrefix.size());
      if (name.starts_with(kFactorPrefix) && end != name.npos) factored.insert(name.substr(end + 1));
    }
    for (const SavedSlice& slice : file.slices) {
      if (slice.tensor >= std::ssize(manifest.tensors) || slice.state >= std::ssize(manifest.states))
        refuse_json(path, fmt::format("{} holds a slice of no tensor", file.name));
      const SavedTensor& tensor = manifest.tensors[static_cast<std::size_t>(slice.tensor)];
      if (slice.state > 0 && !tensor.trainable)
        refuse_json(path, fmt::format("{} is frozen, but has moments", tensor.name));
      if (slice.numel > tensor.numel()) refuse_json(path, fmt::format("a slice is larger than {}", tensor.name));
      const auto size = static_cast<std::int64_t>(size_of(slice.state == 0 ? tensor.dtype : DType::kFloat32));
      require_inside(file, slice.offset, slice.numel * size, path);
      parts.push_back({slice.tensor, slice.state, slice.begin, slice.numel});
    }
  }
  std::ranges::sort(parts, {},
                    [](const Part& part) { return std::tie(part.tensor, part.state, part.begin, part.numel); });
  std::size_t next = 0;
  for (int index = 0; index < std::ssize(manifest.tensors); ++index) {
    const SavedTensor& tensor = manifest.tensors[static_cast<std::size_t>(index)];
    bool updated = !tensor.trainable || manifest.states.size() == 1 || factored.contains(tensor.name);
    for (int state = 0; state < (tensor.trainable ? std::ssize(manifest.states) : 1); ++state) {
      std::int64_t covered = 0;
      for (; next < parts.size() && parts[next].tensor == index && parts[next].state == state; ++next) {
        if (parts[next].begin != covered) break;
        covered += parts[next].numel;
      }
      const bool lacks_it = covered == 0 && state > 0 && (updated || state + 1 < std::ssize(manifest.states));
      if (covered != tensor.numel() && !lacks_it)
        refuse_json(
            path, fmt::format("{} of {} is not covered exactly once: {} of {} elements",
                              manifest.states[static_cast<std::size_t>(state)], tensor.name, covered, tensor.numel()));
      updated = updated || (state > 0 && covered > 0);
    }
  }
  if (next != parts.size()) refuse_json(path, "a slice overlaps another");
}

void check(const Manifest& manifest, std::string_view path) {
  std::set<std::string_view> names;
  for (const SavedTensor& tensor : manifest.tensors)
    if (!names.insert(tensor.name).second) refuse_json(path, fmt::format("{:.64} occurs twice", tensor.name));
  names.clear();
  for (const SavedFile& file : manifest.files)
    if (!names.insert(file.name).second) refuse_json(path, fmt::format("{} occurs twice", file.name));
  if (manifest.states.empty() || manifest.states.front() != "parameter" || manifest.states.size() > kMostSavedStates)
    refuse_json(path, fmt::format("its first state is not \"parameter\", or there are more than {}", kMostSavedStates));
  if (manifest.states.size() * manifest.tensors.size() > kMostTensorStates)
    refuse_json(path,
                fmt::format("{} tensors with {} states are too many", manifest.tensors.size(), manifest.states.size()));
  if (manifest.files.empty()) refuse_json(path, "names no files");
  check_cover(manifest, path);
}

}  // namespace

std::int64_t SavedTensor::numel() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies());
}

std::int64_t Manifest::size_bytes() const {
  std::int64_t bytes = 0;
  for (const SavedFile& file : files) bytes += file.content.size_bytes;
  return bytes;
}

std::string Manifest::config_sha256() const {
  return sha256_hex(std::as_bytes(std::span(config)));
}

std::string to_text(const Manifest& manifest) {
  Json tensors = Json::array(), files = Json::array();
  for (const SavedTensor& tensor : manifest.tensors) tensors.push_back(json_of(tensor));
  for (const SavedFile& file : manifest.files) files.push_back(json_of(file));
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"block_bytes", kSumBlockBytes},
               {"states", manifest.states},
               {"steps", manifest.steps},
               {"skipped", manifest.skipped},
               {"skipped_in_a_row", manifest.skipped_in_a_row},
               {"delayed", manifest.delayed},
               {"run", manifest.run},
               {"config", manifest.config},
               {"config_sha256", manifest.config_sha256()},
               {"tensors", std::move(tensors)},
               {"files", std::move(files)}};
  if (manifest.loss_scale.value > 0)
    json["loss_scale"] = {{"value", manifest.loss_scale.value}, {"good_steps", manifest.loss_scale.good_steps}};
  const std::string text = json.dump();
  return fmt::format("{}{}{}{}{}", kHead, sha256_hex(std::as_bytes(std::span(text))), kMiddle, text, kTail);
}

namespace {

// Reads the dynamic loss scale. Only runs that have one write it, so older programs can read the manifests of all
// others.
LossScale::State take_loss_scale(Json& json, std::string_view path) {
  const auto found = json.find("loss_scale");
  if (found == json.end()) return {};
  const Json saved = *found;
  json.erase(found);
  require_keys(saved, {"value", "good_steps"}, path);
  if (!saved["value"].is_number() || !(saved["value"].get<double>() > 0))
    refuse_json(path, "a loss scale must be above 0");
  return {.value = saved["value"].get<double>(), .good_steps = natural(saved["good_steps"], "good_steps", path)};
}

}  // namespace

Manifest parse_manifest(std::string_view text, std::string_view path) {
  const std::size_t begin = kHead.size() + kDigits + kMiddle.size();
  if (text.size() < begin + kTail.size() || !text.starts_with(kHead) || !text.ends_with(kTail) ||
      text.substr(kHead.size() + kDigits, kMiddle.size()) != kMiddle)
    refuse_json(path, "is not a manifest, or is only a part of a manifest");
  const std::string_view body = text.substr(begin, text.size() - begin - kTail.size());
  if (sha256_hex(std::as_bytes(std::span(body))) != text.substr(kHead.size(), kDigits))
    refuse_json(path, "differs from the saved manifest: its SHA-256 differs");
  Json json = parse_strictly(body, path);
  if (!json.is_object() || json.value("format", Json()) != kFormat || json.value("version", Json()) != kVersion)
    refuse_json(path, fmt::format("does not have format \"{}\", version {}", kFormat, kVersion));
  const LossScale::State loss_scale = take_loss_scale(json, path);
  require_keys(json,
               {"format", "version", "block_bytes", "states", "steps", "skipped", "skipped_in_a_row", "delayed", "run",
                "config", "config_sha256", "tensors", "files"},
               path);
  if (json["block_bytes"] != kSumBlockBytes) refuse_json(path, "its checksums have another block size");
  Manifest manifest{.steps = natural(json["steps"], "steps", path),
                    .skipped = natural(json["skipped"], "skipped", path),
                    .skipped_in_a_row = natural(json["skipped_in_a_row"], "skipped_in_a_row", path),
                    .delayed = natural(json["delayed"], "delayed", path),
                    .loss_scale = loss_scale,
                    .config = text_of(json["config"], "config", path)};
  if (json["config_sha256"] != manifest.config_sha256())
    refuse_json(path, "\"config_sha256\" is not that of its configuration");
  for (const Json& state : array_of(json["states"], "states", path))
    manifest.states.push_back(text_of(state, "a state", path));
  if (!json["run"].is_object()) refuse_json(path, "\"run\" is not an object");
  for (const auto& item : json["run"].items()) manifest.run[item.key()] = text_of(item.value(), item.key(), path);
  for (const Json& tensor : array_of(json["tensors"], "tensors", path))
    manifest.tensors.push_back(tensor_of(tensor, path));
  for (const Json& file : array_of(json["files"], "files", path)) manifest.files.push_back(file_of(file, path));
  check(manifest, path);
  return manifest;
}

std::string to_text(const SavedFile& file) {
  return json_of(file).dump();
}

SavedFile parse_saved_file(std::string_view text, std::string_view path) {
  return file_of(parse_strictly(text, path), path);
}

}  // namespace zero
