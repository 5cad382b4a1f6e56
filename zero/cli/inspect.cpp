// `zero inspect FILE`: says what a file is, then what is in it, as text or as one JSON object.
#include <filesystem>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/cli/description.h"
#include "zero/cli/flags.h"

namespace zero::cli {

int run_inspect(Arguments arguments) {
  CLI::App app("Says what a safetensors file, a data file or a run folder contains.", "zero inspect");
  std::string path;
  bool json = false;
  app.add_option("FILE", path, "safetensors; llm.c or nanoGPT .bin; IDX; .csv; text; or a run folder")->required();
  app.add_flag("--json", json, "as one JSON object");
  if (!parse_flags(app, arguments)) return 0;
  const Description description = describe_path(path);
  if (json) {
    fmt::print("{}\n", description.json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", description.text);
  }
  return 0;
}

}  // namespace zero::cli
