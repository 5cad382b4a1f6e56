#include "app/train/folder/run_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

#include "app/report/files/event_file.h"

namespace zero {

namespace fs = std::filesystem;

namespace {

void remove_file(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  if (error) throw IoError(file.string(), "remove", error.value());
}

ConfigError not_writable(const fs::path& folder, const std::error_code& error) {
  return {"run.dir", folder.string(), fmt::format("cannot be written: {}", error.message()),
          "name a folder that you may write to with --run.dir"};
}

}  // namespace

bool RunFolder::holds_run() const {
  const auto is_there = [](const fs::path& file) {
    std::error_code error;
    const bool there = fs::exists(file, error);
    if (error && error.value() != ENOENT && error.value() != ENOTDIR)
      throw IoError(file.string(), "look at", error.value());
    return there;
  };
  return is_there(files_.config) || is_there(files_.metrics) || is_there(files_.report);
}

void RunFolder::require_free(bool overwrite) const {
  if (overwrite || !holds_run()) return;
  std::error_code ignored;
  if (fs::exists(files_.model, ignored)) {
    throw ConfigError("run.dir", files_.folder.string(),
                      "holds a run already, which is finished and has no checkpoint to continue from",
                      fmt::format("name another folder with --run.dir (--model.init {} starts from its weights), or "
                                  "replace the run with --overwrite",
                                  files_.model.string()));
  }
  if (files_.checkpoints.list().empty() && !fs::exists(files_.report, ignored)) {
    throw ConfigError("run.dir", files_.folder.string(), "holds a run already, which ended before its first checkpoint",
                      "replace the run with --overwrite, or name another folder with --run.dir (a run with checkpoints "
                      "begins again by itself, with the same command and configuration)");
  }
  throw ConfigError("run.dir", files_.folder.string(), "holds a run already",
                    "name another folder with --run.dir, or replace the run with --overwrite");
}

bool RunFolder::is_of(std::string_view launch) const {
  std::error_code ignored;
  if (launch.empty() || !fs::exists(files_.launch, ignored)) return false;
  std::istringstream names(read_file(files_.launch));
  for (std::string name; std::getline(names, name);)
    if (name == launch) return true;
  return false;
}

bool RunFolder::was_cut_short(std::string_view config) const {
  std::error_code ignored;
  const auto is_there = [&](const fs::path& file) { return fs::exists(file, ignored); };
  return is_there(files_.config) && !is_there(files_.report) && !is_there(files_.model) &&
         files_.checkpoints.list().empty() && read_file(files_.config) == config;
}

void RunFolder::require_writable() const {
  std::error_code error;
  fs::path place = files_.folder;
  while (!fs::exists(place, error) && !error && place.has_relative_path()) place = place.parent_path();
  if (place.empty()) place = ".";
  if (!error && !fs::is_directory(place, error) && !error) error = std::make_error_code(std::errc::not_a_directory);
  if (!error) {
    // Permissions are not sufficient: root has all of them, also where no file can be created.
    std::string probe = (place / ".zero-XXXXXX").string();
    if (::mkdtemp(probe.data()) == nullptr || ::rmdir(probe.c_str()) != 0)
      error = std::error_code(errno, std::generic_category());
  }
  if (error) throw not_writable(files_.folder, error);
}

void RunFolder::create(std::string_view launches) const {
  std::error_code error;
  const fs::path folder = files_.folder.has_filename() ? files_.folder : files_.folder.parent_path();
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  // A new folder is accessible only to this user; an existing folder keeps its permissions.
  if (!error) error = make_private_folder(folder);
  if (!error && !fs::is_directory(folder, error) && !error) error = std::make_error_code(std::errc::not_a_directory);
  if (!error && ::access(files_.folder.c_str(), W_OK | X_OK) != 0)
    error = std::error_code(errno, std::generic_category());
  if (error) throw not_writable(files_.folder, error);
  for (const fs::path& file : {files_.config, files_.plan, files_.metrics, files_.model, files_.averaged_model,
                               files_.report, files_.timeline, files_.preprocessing}) {
    remove_file(file);
  }
  files_.checkpoints.clear();
  remove_event_files(files_.tensorboard);
  // Last, after the old run's files are removed.
  launches.empty() ? remove_file(files_.launch) : write_file(files_.launch, launches);
}

void RunFolder::remove_pushes() const {
  remove_file(files_.pushes);
}

void RunFolder::reopen(std::int64_t step, const ComesAgain& again) const {
  remove_file(files_.model);
  remove_file(files_.averaged_model);
  remove_file(files_.report);
  std::error_code ignored;
  if (!fs::exists(files_.metrics, ignored)) return;
  write_file(files_.metrics, lines_until(read_file(files_.metrics), step, again));
}

std::int64_t RunFolder::finished_steps() const {
  std::error_code ignored;
  if (!fs::exists(files_.report, ignored) || !fs::exists(files_.model, ignored)) return -1;
  const auto json = nlohmann::json::parse(read_file(files_.report), nullptr, false);
  return json.is_object() ? json.value("steps", std::int64_t{-1}) : -1;
}

std::int64_t RunFolder::evaluations_without_improvement() const {
  std::error_code ignored;
  if (!fs::exists(files_.report, ignored) || !fs::exists(files_.model, ignored)) return -1;
  const auto json = nlohmann::json::parse(read_file(files_.report), nullptr, false);
  if (!json.is_object() || json.value("ended", "") != "no improvement") return -1;
  const auto best = json.find("best_evaluation");
  return best != json.end() && best->is_object() ? best->value("evaluations_since", std::int64_t{-1}) : -1;
}

void RunFolder::require_finished() const {
  std::error_code ignored;
  if (fs::exists(files_.config, ignored) && fs::exists(files_.model, ignored)) return;
  throw ConfigError("run", files_.folder.string(), holds_run() ? "a run that has not finished" : "not a run folder",
                    "name the [run] dir of a run that ended: it has config.toml and model.safetensors");
}

}  // namespace zero
