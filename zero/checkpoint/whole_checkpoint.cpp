#include "zero/checkpoint/whole_checkpoint.h"

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/no_run.h"

namespace zero {

namespace fs = std::filesystem;

namespace {

CheckpointReader open_verified(const fs::path& path) {
  CheckpointReader reader(path);
  reader.verify();
  return reader;
}

}  // namespace

bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / kManifestName, ignored);
}

CheckpointReader open_best_checkpoint(const fs::path& run) {
  if (is_checkpoint(run))
    throw ConfigError("--best", run.string(), "this is a checkpoint, not a run",
                      "name the folder of its run, or leave --best out");
  const CheckpointFolder folder(run / "checkpoints");
  for (const auto& entry : folder.list()) {
    std::string step;
    try {
      const CheckpointReader reader(entry.path);
      if (const auto best = reader.manifest().run.find("best_step"); best != reader.manifest().run.end())
        step = best->second;
    } catch (const IoError& error) {
      ZERO_LOG(warn, "this checkpoint is skipped: {}", error.what());
    }
    for (const auto& other : folder.list())
      if (fmt::format("{}", other.step) == step) return open_verified(other.path);
  }
  if (const auto no_run = why_no_run(run)) throw ConfigError("RUN", run.string(), no_run->reason, no_run->remedy);
  throw ConfigError("--best", run.string(), "this run keeps no best checkpoint",
                    "train with checkpoint.keep_best loss or accuracy, or leave --best out");
}

CheckpointReader open_whole_checkpoint(const fs::path& path) {
  if (is_checkpoint(path)) return open_verified(path);
  for (const auto& entry : CheckpointFolder(path / "checkpoints").list()) {
    try {
      return open_verified(entry.path);
    } catch (const IoError& error) {
      ZERO_LOG(warn, "this checkpoint is skipped: {}", error.what());
    }
  }
  if (const auto no_run = why_no_run(path)) throw ConfigError("RUN", path.string(), no_run->reason, no_run->remedy);
  std::error_code ignored;
  std::string remedy = "name the [run] dir of a `zero train` with [checkpoint] every, or a checkpoint's folder";
  if (const fs::path weights = path / "model.safetensors"; fs::exists(weights, ignored))
    remedy += fmt::format("; the weights of the finished run are in {}", weights.string());
  throw ConfigError("RUN", path.string(), "holds no complete checkpoint", remedy);
}

}  // namespace zero
