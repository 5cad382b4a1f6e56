// why_no_run(): explains why a path is not the folder of a run, and what to name instead.
//
//   why_no_run("runs/x")            // nothing: it has config.toml, or checkpoints
//   why_no_run("runs")              // "a folder of runs, and no run itself"; "name one of them, such as runs/x"
//   why_no_run("exported")          // "weights alone, as `zero export` writes them: not a run"; ...
//
// Local.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace zero {

struct NoRun {
  std::string reason, remedy;
};
std::optional<NoRun> why_no_run(const std::filesystem::path& path);

// Returns true for a folder of safetensors, one or several with an index, as `zero export` and Hugging Face write them.
bool holds_weights_alone(const std::filesystem::path& folder);

}  // namespace zero
