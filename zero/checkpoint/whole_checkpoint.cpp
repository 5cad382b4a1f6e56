#include "zero/checkpoint/whole_checkpoint.h"

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/base/log.h"
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

CheckpointReader open_whole_checkpoint(const fs::path& path) {
  if (is_checkpoint(path)) return open_verified(path);
  for (const auto& entry : CheckpointFolder(path / "checkpoints").list()) {
    try {
      return open_verified(entry.path);
    } catch (const IoError& error) {
      ZERO_LOG(warn, "this checkpoint is passed over: {}", error.what());
    }
  }
  if (const auto no_run = why_no_run(path)) throw ConfigError("RUN", path.string(), no_run->reason, no_run->remedy);
  std::error_code ignored;
  std::string remedy = "name the [run] dir of a `zero train` with [checkpoint] every, or a checkpoint's folder";
  if (const fs::path weights = path / "model.safetensors"; fs::exists(weights, ignored))
    remedy += fmt::format("; the weights of the finished run are in {}", weights.string());
  throw ConfigError("RUN", path.string(), "holds no checkpoint that is whole", remedy);
}

}  // namespace zero
