#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/text/bytes.h"
#include "zero/base/text/seconds.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/no_run.h"

#include "app/cli/inspect/description.h"
#include "app/config/load.h"
#include "app/report/files/metrics_log.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Returns the last whole line that is not a checkpoint's: a run that is in progress, or was killed, can leave half a
// line.
std::string last_line(std::string_view text) {
  const std::string saved = fmt::format(R"("event": "{}")", kSavedEvent);
  if (text.find('\n') == text.npos) return std::string(text);
  while (!text.empty()) {
    text = text.substr(0, text.rfind('\n'));
    const std::size_t before = text.rfind('\n');
    const std::string_view line = text.substr(before == text.npos ? 0 : before + 1);
    if (line.find(saved) == line.npos) return std::string(line);
    text = text.substr(0, before == text.npos ? 0 : before + 1);
  }
  return "";
}

Json parsed(const fs::path& path, const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    throw ConfigError(path.string(), "", "not JSON", "the file is damaged; start the run again with --overwrite");
  return json;
}

double number_in(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0;
}
std::int64_t integer_in(const Json& json, const char* key) {
  return std::llround(number_in(json, key));
}
std::string text_in(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}
// Returns the largest total of a rank.
std::int64_t most_of(const Json& report, const char* key) {
  double most = 0;
  if (report.contains(key) && report[key].is_array())
    for (const Json& rank : report[key])
      if (rank.is_object()) most = std::max(most, number_in(rank, "total"));
  return static_cast<std::int64_t>(most);
}

// Summarises a run that has ended. Reports of earlier versions lack some keys.
std::string summary_of(const Json& report) {
  std::string text;
  if (const std::string date = text_in(report, "date"); !date.empty())
    text += fmt::format("  ended {} on {}: {}\n", date, text_in(report, "host"), text_in(report, "command"));
  const bool has_losses = report.contains("losses") && report["losses"].is_array() && !report["losses"].empty();
  if (has_losses && report["losses"].back().is_number())
    text += fmt::format("  loss {:.4f}", report["losses"].back().get<double>());
  if (number_in(report, "val_loss") > 0)
    text += fmt::format("{}val_loss {:.4f}", text.ends_with('\n') || text.empty() ? "  " : ", ",
                        number_in(report, "val_loss"));
  if (has_losses)
    text += fmt::format(" after {}\n", format_count(static_cast<std::int64_t>(report["losses"].size()), "step"));
  const bool rows = report.contains("rows_per_second");
  if (number_in(report, "world") > 0)
    text += fmt::format("  {} ({}): {} a step, {} {}/s\n", format_count(integer_in(report, "world"), "rank"),
                        text_in(report, "transport"), format_seconds(number_in(report, "step_s_median")),
                        format_count(std::llround(number_in(report, rows ? "rows_per_second" : "tokens_per_second"))),
                        rows ? "rows" : "tokens");
  if (const std::int64_t most = most_of(report, "peak_memory_bytes"); most > 0)
    text += fmt::format("  a rank: {} on the device, at most {}\n", format_bytes(most_of(report, "memory_bytes")),
                        format_bytes(most));
  for (const auto& [key, noun] : {std::pair("skipped_steps", "skipped step"), std::pair("rewinds", "rewind")})
    if (number_in(report, key) > 0) text += fmt::format("  {}\n", format_count(integer_in(report, key), noun));
  if (const std::string sha = text_in(report, "parameters_sha256"); !sha.empty())
    text += fmt::format("  parameters_sha256 {}\n", sha);
  return text;
}

}  // namespace

Description describe_run(const fs::path& folder, bool verify) {
  const fs::path config = folder / "config.toml";
  if (!fs::exists(config)) {
    if (const auto saved = CheckpointFolder(folder / "checkpoints").list(); !saved.empty())
      throw ConfigError("FILE", folder.string(), "checkpoints without the config.toml of their run",
                        fmt::format("name one of them, such as {}", saved.front().path.string()));
    const NoRun no_run = why_no_run(folder).value_or(
        NoRun{"a folder without config.toml: not a run", "name the [run] dir of a `zero train`"});
    throw ConfigError("FILE", folder.string(), no_run.reason, no_run.remedy + ", or a file");
  }
  const LoadedConfig loaded =
      load_config({.file = config, .overrides = {}, .environment = {}, .check_files = false, .recorded = true});
  const auto& [model, train] = std::tie(loaded.config.model, loaded.config.train);
  Description out;
  const bool done = fs::exists(folder / "report.json");
  out.text = fmt::format("{}: a run, {}\n  {} on {} ({}), {}, global batch {}, stage {}, {}\n", folder.string(),
                         done ? "done" : "not done", model.name, loaded.config.data.path.text(),
                         name_of(loaded.config.data.kind), format_count(train.steps, "step"), train.global_batch,
                         loaded.config.engine.stage, name_of(*loaded.config.engine.dtype));
  out.json = {{"kind", "run"},
              {"path", folder.string()},
              {"done", done},
              {"model", model.name},
              {"data", loaded.config.data.path.text()},
              {"steps", train.steps},
              {"stage", loaded.config.engine.stage}};
  if (const fs::path metrics = folder / "metrics.jsonl"; fs::exists(metrics)) {
    if (const std::string line = last_line(read_file(metrics)); !line.empty()) {
      out.json["last_metrics"] = parsed(metrics, line);
      const Json& last = out.json["last_metrics"];
      if (!done)
        out.text += fmt::format("  step {} of {}{}\n", number_in(last, "step"), train.steps,
                                last.contains("loss") ? fmt::format(", loss {:.4f}", number_in(last, "loss")) : "");
    }
  }
  if (done) {
    out.json["report"] = parsed(folder / "report.json", read_file(folder / "report.json"));
    if (out.json["report"].is_object()) out.text += summary_of(out.json["report"]);
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
  out.text += "  `zero inspect --json` has the whole report\n";
  return out;
}

}  // namespace zero::cli
