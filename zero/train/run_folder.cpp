#include "zero/train/run_folder.h"

#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error.h"

namespace zero {

namespace fs = std::filesystem;

bool RunFolder::holds_run() const {
  std::error_code ignored;  // a folder that cannot be looked into is refused by create()
  return fs::exists(config(), ignored) || fs::exists(metrics(), ignored) || fs::exists(report(), ignored);
}

void RunFolder::require_free(bool overwrite) const {
  if (overwrite || !holds_run()) return;
  throw ConfigError("run.dir", path_.string(), "holds a run already",
                    "name another folder with --run.dir, or replace the run with --overwrite");
}

void RunFolder::create() const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (!error && ::access(path_.c_str(), W_OK | X_OK) != 0) error = std::error_code(errno, std::generic_category());
  if (error) {
    throw ConfigError("run.dir", path_.string(), fmt::format("cannot be written: {}", error.message()),
                      "name a folder that you may write to with --run.dir");
  }
  for (const fs::path& file : {config(), plan(), metrics(), model(), report()}) {
    fs::remove(file, error);
    if (error) throw IoError(file.string(), "remove", error.value());
  }
}

void RunFolder::require_finished() const {
  std::error_code ignored;
  if (fs::exists(config(), ignored) && fs::exists(model(), ignored)) return;
  throw ConfigError("run", path_.string(), holds_run() ? "a run that has not finished" : "not a run folder",
                    "name the [run] dir of a run that ended: it has config.toml and model.safetensors");
}

}  // namespace zero
