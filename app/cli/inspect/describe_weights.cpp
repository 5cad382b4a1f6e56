#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "zero/base/files/file.h"
#include "zero/base/text/bytes.h"
#include "zero/base/text/terminal_text.h"
#include "zero/checkpoint/safetensors.h"

#include "app/cli/inspect/description.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Returns model_type of transformers' config.json; "" if there is no such file or key.
std::string model_type_of(const fs::path& folder) {
  std::error_code ignored;
  const fs::path path = folder / "config.json";
  if (!fs::is_regular_file(path, ignored)) return "";
  const Json config = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !config.contains("model_type") || !config["model_type"].is_string()) return "";
  return config["model_type"];
}

}  // namespace

Description describe_weights(const fs::path& folder) {
  const SafetensorsSet set = SafetensorsSet::open(folder, "FILE");
  std::int64_t numel = 0, bytes = 0;
  std::vector<std::string> files;
  for (const SafetensorsSet::Tensor& tensor : set.tensors()) {
    numel += tensor.entry->numel();
    bytes += tensor.entry->size_bytes();
    if (const std::string& path = tensor.file->path(); std::ranges::find(files, path) == files.end())
      files.push_back(path);
  }
  const auto num_tensors = std::ssize(set.tensors());
  const std::string model_type = model_type_of(folder);
  Description out;
  out.text = fmt::format("{}: weights without their run, {}, {}, {} in {}\n", folder.string(),
                         format_count(num_tensors, "tensor"), format_count(numel, "element"), format_bytes(bytes),
                         format_count(std::ssize(files), "file"));
  if (!model_type.empty()) out.text += fmt::format("  config.json: a {} of transformers\n", terminal_text(model_type));
  out.text += fmt::format("  use them with: [model] init = \"{}\"\n", folder.string());
  if (!files.empty()) out.text += fmt::format("  `zero inspect {}` lists its tensors\n", terminal_text(files.front()));
  out.json = {{"kind", "weights"}, {"path", folder.string()}, {"num_tensors", num_tensors}, {"numel", numel},
              {"bytes", bytes},    {"files", files},          {"model_type", model_type}};
  return out;
}

}  // namespace zero::cli
