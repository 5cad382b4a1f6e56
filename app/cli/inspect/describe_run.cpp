#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/text/bytes.h"
#include "zero/base/text/terminal_text.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/no_run.h"

#include "app/cli/inspect/description.h"
#include "app/config/load.h"
#include "app/report/page/report_file.h"
#include "app/report/screen/loss_text.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Returns the last line of a step or an evaluation; null: there is none. Lines of events, such as "rewound", have the
// step of a checkpoint. A run that is in progress, or was killed, can leave half a line; damaged lines are left out.
Json last_metrics(std::string_view text) {
  text = text.substr(0, text.rfind('\n') + 1);  // npos + 1 is 0
  while (!text.empty()) {
    text.remove_suffix(1);
    const std::size_t begin = text.rfind('\n') + 1;
    Json line = Json::parse(text.substr(begin), nullptr, /*allow_exceptions=*/false);
    if (line.is_object() && line.contains("step") && line["step"].is_number() && !line.contains("event")) return line;
    text = text.substr(0, begin);
  }
  return Json();
}

// Returns null if there is no report, or if it is damaged.
Json report_in(const fs::path& path) {
  if (!fs::exists(path)) return Json();
  Json report = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  return report.is_object() ? std::move(report) : Json();
}

std::string last_loss(const Json& loss) {
  return "loss " + (loss.is_number() ? loss_text(loss.get<double>()) : "not finite");
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
    text +=
        terminal_text(fmt::format("  ended {} on {}: {}", date, text_in(report, "host"), text_in(report, "command"))) +
        '\n';
  const bool has_losses = report.contains("losses") && report["losses"].is_array() && !report["losses"].empty();
  if (has_losses) text += "  " + last_loss(report["losses"].back());
  if (report.contains("val_loss") && report["val_loss"].is_number())
    text += fmt::format("{}val_loss {}", text.ends_with('\n') || text.empty() ? "  " : ", ",
                        loss_text(number_in(report, "val_loss")));
  if (has_losses)
    text += fmt::format(" after {}\n", format_count(static_cast<std::int64_t>(report["losses"].size()), "step"));
  const bool rows = report.contains("rows_per_second");
  if (const std::string ranks = page::ranks_in_words(nlohmann::json(report)); !ranks.empty())
    text += fmt::format("  {} ({}): {} a step, {} {}/s\n", ranks, terminal_text(text_in(report, "transport")),
                        format_seconds(number_in(report, "step_s_median")),
                        format_count(std::llround(number_in(report, rows ? "rows_per_second" : "tokens_per_second"))),
                        rows ? "rows" : "tokens");
  if (const std::int64_t most = most_of(report, "peak_memory_bytes"); most > 0)
    text += fmt::format("  a rank: {} on the device, at most {}\n", format_bytes(most_of(report, "memory_bytes")),
                        format_bytes(most));
  for (const auto& [key, noun] : {std::pair("skipped_steps", "skipped step"), std::pair("rewinds", "rewind")})
    if (number_in(report, key) > 0) text += fmt::format("  {}\n", format_count(integer_in(report, key), noun));
  if (const std::string sha = text_in(report, "parameters_sha256"); !sha.empty())
    text += fmt::format("  parameters_sha256 {}\n", terminal_text(sha));
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
  const Json report = report_in(folder / "report.json");
  const bool done = !report.is_null();
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
    if (const Json last = last_metrics(read_file(metrics)); !last.is_null()) {
      out.json["last_metrics"] = last;
      if (!done)
        out.text += fmt::format("  step {} of {}{}\n", number_in(last, "step"), train.steps,
                                last.contains("loss") ? ", " + last_loss(last["loss"]) : "");
    }
  }
  if (done) {
    out.json["report"] = report;
    out.text += summary_of(report);
  } else if (fs::exists(folder / "report.json")) {
    const char* const note = "report.json is damaged: it is left out";
    out.json["notes"] = Json::array({note});
    out.text += fmt::format("  {}\n", note);
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
