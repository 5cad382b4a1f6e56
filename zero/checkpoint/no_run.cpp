#include "zero/checkpoint/no_run.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/published_folder.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "config.toml", ignored) || !CheckpointFolder(folder / "checkpoints").list().empty();
}

// Accepts paths with and without a slash at the end.
fs::path folder_around(const fs::path& path) {
  const fs::path folder = (path.has_filename() ? path : path.parent_path()).parent_path();
  return folder.empty() ? "." : folder;
}

// Returns the first run in a folder, by name.
std::optional<fs::path> run_within(const fs::path& folder) {
  std::vector<fs::path> paths = paths_in(folder);
  std::ranges::sort(paths);
  const auto found = std::ranges::find_if(paths, is_run);
  return found == paths.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

bool holds_weights_alone(const fs::path& folder) {
  std::error_code ignored;
  return !is_run(folder) && (fs::exists(folder / "model.safetensors", ignored) ||
                             fs::exists(folder / "model.safetensors.index.json", ignored));
}

std::optional<NoRun> why_no_run(const fs::path& path) {
  constexpr std::string_view kName = "name the [run] dir of a `zero train`";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return NoRun{"no such folder", std::string(kName)};
  if (!fs::is_directory(path, ignored))
    return NoRun{"it is a file; the folder of a run is needed",
                 is_run(folder_around(path)) ? fmt::format("name its folder, {}", folder_around(path).string())
                                             : std::string(kName)};
  if (is_run(path)) return std::nullopt;
  if (holds_weights_alone(path))
    return NoRun{"only weights, as `zero export` writes them: not a run",
                 fmt::format("{}; run `zero inspect {}` to list its contents, or train from it with --model.init {}",
                             kName, path.string(), path.string())};
  if (const auto saved = CheckpointFolder(path).list(); !saved.empty())
    return NoRun{"a folder of checkpoints, not a run",
                 fmt::format("name the run's folder, {}, or one of its checkpoints, such as {}",
                             folder_around(path).string(), saved.front().path.string())};
  if (const auto run = run_within(path))
    return NoRun{"a folder of runs, not a run", fmt::format("name one of these runs, such as {}", run->string())};
  return NoRun{"a folder without config.toml: not a run", std::string(kName)};
}

}  // namespace zero
