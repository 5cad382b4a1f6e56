#include <fmt/format.h>

#include "zero/base/bytes.h"
#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/cli/description.h"
#include "zero/config/load.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The last whole line: a run that is going on, or was killed, may have left half of one.
std::string last_line(const std::string& text) {
  const auto end = text.rfind('\n');
  if (end == std::string::npos || end == 0) return text.substr(0, end == 0 ? 0 : std::string::npos);
  const auto begin = text.rfind('\n', end - 1);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - (begin == std::string::npos ? 0 : begin + 1));
}

Json parsed(const fs::path& path, const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    throw ConfigError(path.string(), "", "not JSON", "the file is damaged; start the run again with --overwrite");
  return json;
}

// Long arrays (a loss a step) are for programs; people want their number.
std::string shown_value(const Json& value) {
  if (value.is_array() && value.size() > 8)
    return fmt::format("[{} values, the last {}]", value.size(), value.back().dump());
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Description describe_run(const fs::path& folder, bool verify) {
  const fs::path config = folder / "config.toml";
  if (!fs::exists(config)) {
    throw ConfigError("FILE", folder.string(), "a folder without config.toml: not a run",
                      "name the [run] dir of a `zero train`, or a file");
  }
  const LoadedConfig loaded = load_config({.file = config, .overrides = {}, .environment = {}, .check_files = false});
  const auto& [model, train] = std::tie(loaded.config.model, loaded.config.train);
  Description out;
  const bool done = fs::exists(folder / "report.json");
  out.text = fmt::format("{}: a run, {}\n  {} on {} ({}), {} steps, global batch {}, stage {}, {}\n", folder.string(),
                         done ? "done" : "not done", model.name, loaded.config.data.path, loaded.config.data.kind,
                         train.steps, train.global_batch, loaded.config.zero.stage, train.dtype);
  out.json = {{"kind", "run"},
              {"path", folder.string()},
              {"done", done},
              {"model", model.name},
              {"data", loaded.config.data.path},
              {"steps", train.steps},
              {"stage", loaded.config.zero.stage}};
  if (const fs::path metrics = folder / "metrics.jsonl"; fs::exists(metrics)) {
    if (const std::string line = last_line(read_file(metrics)); !line.empty()) {
      out.json["last_metrics"] = parsed(metrics, line);
      out.text += fmt::format("  last metrics: {}\n", line);
    }
  }
  if (done) {
    out.json["report"] = parsed(folder / "report.json", read_file(folder / "report.json"));
    out.text += "  report:\n";
    for (const auto& [key, value] : out.json["report"].items())
      out.text += fmt::format("    {:<24} {}\n", key, shown_value(value));
  }
  for (const auto& entry : CheckpointFolder(folder / "checkpoints").list()) {
    const Description checkpoint = describe_checkpoint(entry.path, verify);
    out.json["checkpoints"].push_back(checkpoint.json);
    out.text += "  " + checkpoint.text;
  }
  if (const fs::path weights = folder / "model.safetensors"; fs::exists(weights)) {
    const Description tensors = describe_safetensors(weights);
    out.json["weights"] = tensors.json;
    out.text += "  " + tensors.text.substr(0, tensors.text.find('\n') + 1);
  }
  return out;
}

}  // namespace zero::cli
