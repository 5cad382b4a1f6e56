#include "app/cli/inspect/inspect.h"

// `zero inspect FILE`: prints the kind of a file and its contents, as text or as one JSON object.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/error/exit_status.h"

#include "app/cli/command/flags.h"
#include "app/cli/inspect/description.h"

namespace zero::cli {
namespace {

bool is_damaged(const nlohmann::ordered_json& json) {
  if (json.value("kind", "") == "checkpoint") return !json.value("whole", true);
  return json.contains("checkpoints") && std::ranges::any_of(json["checkpoints"], is_damaged);
}

}  // namespace

int run_inspect(Arguments arguments) {
  CLI::App app("Describes a safetensors file, a data file or a run folder.", "zero inspect");
  std::string path;
  bool json = false, verify = false;
  app.add_option(
         "FILE", path,
         "safetensors file or folder; .bin of llm.c or nanoGPT; IDX; .csv; .tsv; .jsonl; text; run folder; checkpoint")
      ->required();
  app.add_flag("--verify", verify, "read every byte of the checkpoints; exit status 4 if a byte is damaged");
  app.add_flag("--json", json, "print one JSON object");
  if (!parse_flags(app, arguments)) return 0;
  const Description description = describe_path(path, verify);
  if (json) {
    fmt::print("{}\n", description.json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", description.text);
  }
  return verify && is_damaged(description.json) ? kIoFailedStatus : 0;
}

}  // namespace zero::cli
