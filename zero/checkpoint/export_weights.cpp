#include "zero/checkpoint/export_weights.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/file.h"
#include "zero/checkpoint/safetensors_writer.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPieceNumel = std::int64_t{1} << 20;

DType dtype_of(const SavedTensor& tensor, const ExportOptions& options) {
  return tensor.trainable ? options.dtype.value_or(DType::kFloat32) : tensor.dtype;
}

std::int64_t bytes_of(const SavedTensor& tensor, const ExportOptions& options) {
  return tensor.numel() * static_cast<std::int64_t>(size_of(dtype_of(tensor, options)));
}

// In the manifest's order, as many a file as fit; a tensor that is larger alone has a file to itself.
std::vector<std::vector<int>> deal(const Manifest& manifest, const ExportOptions& options) {
  std::vector<std::vector<int>> files(1);
  std::int64_t held = 0;
  for (int index = 0; index < std::ssize(manifest.tensors); ++index) {
    const std::int64_t bytes = bytes_of(manifest.tensors[static_cast<std::size_t>(index)], options);
    if (held + bytes > options.shard_bytes && !files.back().empty()) {
      files.emplace_back();
      held = 0;
    }
    files.back().push_back(index);
    held += bytes;
  }
  return files;
}

void write_tensor(CheckpointReader& reader, int index, DType dtype, SafetensorsWriter& writer) {
  const SavedTensor& tensor = reader.manifest().tensors[static_cast<std::size_t>(index)];
  std::vector<float> values;
  std::vector<BFloat16Bits> rounded;
  for (std::int64_t begin = 0; begin < tensor.numel(); begin += kPieceNumel) {
    values.resize(static_cast<std::size_t>(std::min(kPieceNumel, tensor.numel() - begin)));
    reader.read(index, 0, begin, values);
    if (dtype == DType::kFloat32) {
      writer.write(tensor.name, begin * 4, std::as_bytes(std::span(values)));
    } else {
      rounded.resize(values.size());
      std::ranges::transform(values, rounded.begin(), to_bfloat16);
      writer.write(tensor.name, begin * 2, std::as_bytes(std::span(rounded)));
    }
  }
}

}  // namespace

std::vector<fs::path> export_weights(CheckpointReader& reader, const fs::path& path, const ExportOptions& options) {
  const Manifest& manifest = reader.manifest();
  const auto files = deal(manifest, options);
  std::vector<fs::path> written;
  nlohmann::ordered_json map;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    fs::path file = path;
    if (files.size() > 1)
      file.replace_filename(fmt::format("{}-{:05}-of-{:05}.safetensors", path.stem().string(), i + 1, files.size()));
    std::vector<SafetensorsEntry> entries;
    for (const int index : files[i]) {
      const SavedTensor& tensor = manifest.tensors[static_cast<std::size_t>(index)];
      entries.push_back(
          {.name = tensor.name, .dtype = element_type_of(dtype_of(tensor, options)), .shape = tensor.shape});
      map[tensor.name] = file.filename().string();
      total += bytes_of(tensor, options);
    }
    SafetensorsWriter writer(file, std::move(entries));
    for (const int index : files[i])
      write_tensor(reader, index, dtype_of(manifest.tensors[static_cast<std::size_t>(index)], options), writer);
    writer.commit();
    written.push_back(file);
  }
  if (files.size() > 1) {
    fs::path index = path;
    index += ".index.json";
    const nlohmann::ordered_json json = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    write_file(index, json.dump(2) + "\n");
    written.push_back(index);
  }
  return written;
}

}  // namespace zero
