#include "zero/checkpoint/export_weights.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/safetensors/safetensors_writer.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPieceNumel = std::int64_t{1} << 20;

void make_folder_of(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) throw IoError(path.parent_path().string(), "make the folder", error.value());
}

// A tensor of the export: a parameter, by its number in the manifest, or a buffer.
struct Exported {
  SafetensorsEntry entry;
  std::int64_t size_bytes = 0;
  int parameter = -1;
  const Extra* buffer = nullptr;
};

DType dtype_of(const SavedTensor& tensor, const ExportOptions& options) {
  return tensor.trainable ? options.dtype.value_or(DType::kFloat32) : tensor.dtype;
}

// Parameters in the manifest's order, then buffers.
std::vector<Exported> tensors_of(const Manifest& manifest, const std::vector<Extra>& extras,
                                 const ExportOptions& options) {
  std::vector<Exported> all;
  for (int index = 0; index < std::ssize(manifest.tensors); ++index) {
    const SavedTensor& tensor = manifest.tensors[static_cast<std::size_t>(index)];
    const DType dtype = dtype_of(tensor, options);
    all.push_back({.entry = {.name = tensor.name, .dtype = element_type_of(dtype), .shape = tensor.shape},
                   .size_bytes = tensor.numel() * static_cast<std::int64_t>(size_of(dtype)),
                   .parameter = index});
  }
  for (const Extra& extra : extras) {
    if (!extra.name.starts_with(kBufferPrefix)) continue;
    all.push_back(
        {.entry = {.name = extra.name.substr(kBufferPrefix.size()), .dtype = extra.dtype, .shape = extra.shape},
         .size_bytes = std::ssize(extra.bytes),
         .buffer = &extra});
  }
  return all;
}

// Puts as many tensors into a file as fit. A tensor that is larger has a file to itself.
std::vector<std::vector<const Exported*>> deal(const std::vector<Exported>& tensors, std::int64_t shard_bytes) {
  std::vector<std::vector<const Exported*>> files(1);
  std::int64_t held = 0;
  for (const Exported& tensor : tensors) {
    if (held + tensor.size_bytes > shard_bytes && !files.back().empty()) {
      files.emplace_back();
      held = 0;
    }
    files.back().push_back(&tensor);
    held += tensor.size_bytes;
  }
  return files;
}

void write_parameter(CheckpointReader& reader, const Exported& exported, SafetensorsWriter& writer) {
  const SavedTensor& tensor = reader.manifest().tensors[static_cast<std::size_t>(exported.parameter)];
  std::vector<float> values;
  std::vector<std::uint16_t> rounded;
  const DType dtype = dtype_of(exported.entry.dtype).value();
  for (std::int64_t begin = 0; begin < tensor.numel(); begin += kPieceNumel) {
    values.resize(static_cast<std::size_t>(std::min(kPieceNumel, tensor.numel() - begin)));
    reader.read(exported.parameter, 0, begin, values);
    if (dtype == DType::kFloat32) {
      writer.write(tensor.name, begin * 4, std::as_bytes(std::span(values)));
    } else {
      rounded.resize(values.size());
      convert_elements(reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32,
                       reinterpret_cast<std::byte*>(rounded.data()), dtype, std::ssize(values));
      writer.write(tensor.name, begin * 2, std::as_bytes(std::span(rounded)));
    }
  }
}

bool same_buffers(const std::vector<Extra>& one, const std::vector<Extra>& other) {
  return std::ranges::all_of(one, [&](const Extra& mine) {
    if (!mine.name.starts_with(kBufferPrefix)) return true;
    const auto theirs = std::ranges::find(other, mine.name, &Extra::name);
    return theirs != other.end() && theirs->bytes == mine.bytes;
  });
}

// Lists further names of tensors, states of the optimizer, and each rank's own extras.
std::vector<std::string> left_out_of(CheckpointReader& reader, const std::vector<Extra>& extras) {
  const Manifest& manifest = reader.manifest();
  std::vector<std::string> out;
  for (const SavedTensor& tensor : manifest.tensors)
    for (const std::string& alias : tensor.aliases)
      out.push_back(fmt::format("{}, another name of {}", alias, tensor.name));
  if (manifest.states.size() > 1)
    out.push_back(fmt::format("states of the optimizer ({})",
                              fmt::join(manifest.states.begin() + 1, manifest.states.end(), ", ")));
  std::vector<std::string> others;
  for (const Extra& extra : extras)
    if (!extra.name.starts_with(kBufferPrefix)) others.push_back(extra.name);
  if (!others.empty()) out.push_back(fmt::format("values from which training continues ({})", fmt::join(others, ", ")));
  const bool has_buffers = others.size() < extras.size();
  for (int rank = 1; has_buffers && rank < std::ssize(manifest.files); ++rank) {
    if (same_buffers(extras, reader.read_extras(rank))) continue;
    out.push_back(fmt::format("buffers of ranks 1 to {}, which differ from rank 0's", manifest.files.size() - 1));
    break;
  }
  return out;
}

// True for a name such as STEM-00001-of-00003.safetensors.
bool is_shard_name(std::string_view name, const std::string& stem) {
  constexpr std::string_view kExtension = ".safetensors", kOf = "-of-";
  if (!name.starts_with(stem + "-") || !name.ends_with(kExtension)) return false;
  name.remove_prefix(stem.size() + 1);
  name.remove_suffix(std::min(kExtension.size(), name.size()));
  const std::size_t of = name.find(kOf);
  const auto is_number = [](std::string_view part) {
    return part.size() >= 5 && std::ranges::all_of(part, [](char digit) { return digit >= '0' && digit <= '9'; });
  };
  return of != name.npos && is_number(name.substr(0, of)) && is_number(name.substr(of + kOf.size()));
}

fs::path index_of(fs::path path) {
  path += ".index.json";
  return path;
}

// Returns the files of an earlier export with this name: one file, or an index and the shards that it names.
std::set<fs::path> earlier_files(const fs::path& path) {
  std::set<fs::path> files;
  std::error_code ignored;
  const fs::path index = index_of(path);
  if (fs::is_regular_file(path, ignored)) files.insert(path);
  if (!fs::is_regular_file(index, ignored)) return files;
  const auto json = nlohmann::json::parse(read_file(index), nullptr, /*allow_exceptions=*/false);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object()) return files;
  files.insert(index);
  for (const auto& [tensor, name] : map->items()) {
    if (!name.is_string() || !is_shard_name(name.get<std::string>(), path.stem().string())) continue;
    fs::path shard = path;
    files.insert(shard.replace_filename(name.get<std::string>()));
  }
  return files;
}

// Other programs would read the earlier form: transformers prefers one file to an index.
void remove_earlier(std::set<fs::path> files, const ExportedWeights& written) {
  for (const fs::path& file : written.files) files.erase(file);
  for (const fs::path& file : files) {
    std::error_code error;
    fs::remove(file, error);
    if (error) throw IoError(file.string(), "remove", error.value());
  }
}

}  // namespace

ExportedWeights export_weights(CheckpointReader& reader, const fs::path& path, const ExportOptions& options) {
  const std::vector<Extra> extras = reader.read_extras(0);
  const std::vector<Exported> tensors = tensors_of(reader.manifest(), extras, options);
  const auto files = deal(tensors, options.shard_bytes);
  ExportedWeights out{.num_parameters = std::ssize(reader.manifest().tensors), .left_out = left_out_of(reader, extras)};
  out.num_buffers = std::ssize(tensors) - out.num_parameters;
  make_folder_of(path);
  std::set<fs::path> earlier = earlier_files(path);
  nlohmann::ordered_json map;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    fs::path file = path;
    if (files.size() > 1)
      file.replace_filename(fmt::format("{}-{:05}-of-{:05}.safetensors", path.stem().string(), i + 1, files.size()));
    std::vector<SafetensorsEntry> entries;
    for (const Exported* tensor : files[i]) {
      entries.push_back(tensor->entry);
      map[tensor->entry.name] = file.filename().string();
      total += tensor->size_bytes;
    }
    SafetensorsWriter writer(file, std::move(entries));
    for (const Exported* tensor : files[i]) {
      if (tensor->buffer != nullptr)
        writer.write(tensor->entry.name, 0, tensor->buffer->bytes);
      else
        write_parameter(reader, *tensor, writer);
    }
    writer.commit();
    out.files.push_back(file);
  }
  if (files.size() > 1) {
    const fs::path index = index_of(path);
    const nlohmann::ordered_json json = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    write_file(index, json.dump(2) + "\n");
    out.files.push_back(index);
  }
  remove_earlier(std::move(earlier), out);
  return out;
}

}  // namespace zero
