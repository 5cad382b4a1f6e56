#include "app/cli/verify/verify.h"

// `zero verify`: prepares a folder, trains in it with the ranks of `zero train`, and compares.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/process/clock.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/safetensors/companion_files.h"

#include "app/cli/command/child_process.h"
#include "app/cli/command/flags.h"
#include "app/cli/command/torch_library.h"
#include "app/cli/verify/audit.h"
#include "app/cli/verify/audit_plan.h"
#include "app/cli/verify/audit_text.h"
#include "app/config/command_line.h"
#include "app/config/load.h"
#include "app/config/options/option.h"
#include "app/config/resolved.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kDifferentStatus = 1;

// The folder of the second execution: one that the user names and keeps, or one beside the run, which is removed.
class ExecutionFolder {
 public:
  explicit ExecutionFolder(const AuditPlan& plan) : keeps_(plan.has_run_dir) {
    keeps_ ? take(plan.config.run.dir, plan.run) : make(plan.run);
  }
  ExecutionFolder(const ExecutionFolder&) = delete;
  ExecutionFolder& operator=(const ExecutionFolder&) = delete;
  ~ExecutionFolder() {
    std::error_code ignored;
    if (!keeps_) fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }
  std::string path_if_kept() const { return keeps_ ? path_.string() : ""; }

 private:
  void make(const fs::path& run) {
    const fs::path named = run.has_filename() ? run : run.parent_path();
    std::error_code error;
    const fs::path real = fs::canonical(named, error);
    std::string name = (error ? named : real).string() + "-verify-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      throw ConfigError("RUN", run.string(),
                        fmt::format("no folder can be made beside it: {}", std::generic_category().message(errno)),
                        "name an empty folder for the execution with --run.dir");
    path_ = name;
  }

  void take(const fs::path& folder, const fs::path& run) {
    path_ = folder;
    std::error_code error;
    const fs::path within = fs::weakly_canonical(folder, error).lexically_relative(fs::weakly_canonical(run, error));
    if (!within.empty() && *within.begin() != "..")
      throw ConfigError("run.dir", folder.string(), "it is in the folder of the run, which is not changed",
                        "name another folder, or leave it out");
    if (fs::exists(folder, error) && !(fs::is_directory(folder, error) && fs::is_empty(folder, error)))
      throw ConfigError("run.dir", folder.string(), "it is not an empty folder",
                        "name another folder, or leave it out");
    fs::create_directories(folder, error);
    if (error) throw ConfigError("run.dir", folder.string(), error.message(), "name a folder that can be made");
  }

  fs::path path_;
  bool keeps_;
};

// Gives the execution the checkpoint with which it begins: second names of the files, or copies on another disk.
void lend_checkpoint(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) throw IoError(to.string(), "make", error.value());
  for (const auto& entry : fs::directory_iterator(from)) {
    const fs::path name = to / entry.path().filename();
    fs::create_hard_link(entry.path(), name, error);
    if (error) fs::copy_file(entry.path(), name, error);
    if (error) throw IoError(name.string(), "copy", error.value());
  }
}

// Takes the recorded threads. Throws ConfigError if this machine or build computes other bits.
void compute_as_recorded(AuditPlan& plan) {
  std::vector<int> threads;
  for (const std::string& place : plan.places) {
    const RecordedPlace here = open_torch_verbs().compare_place(place);
    if (!here.why_other_bits.empty())
      throw ConfigError("RUN", plan.run.string(),
                        fmt::format("the bits would differ: a rank computed with {}", here.why_other_bits),
                        "verify with the same versions and settings, on a processor with the same instructions");
    if (!here.note.empty())
      plan.notes.push_back(here.note + ", for which libtorch's libraries may choose another order of sums");
    if (here.threads > 0) threads.push_back(here.threads);
  }
  if (threads.empty()) return;
  if (std::ranges::adjacent_find(threads, std::not_equal_to()) != threads.end())
    throw ConfigError(
        "RUN", plan.run.string(),
        fmt::format("the bits would differ: its ranks computed with {} threads", fmt::join(threads, " and ")),
        "only a run whose ranks have equally many threads can be verified");
  if (plan.config.run.threads == 0) plan.config.run.threads = threads.front();
}

std::vector<std::string> words_of(const AuditPlan& plan, const fs::path& folder) {
  const fs::path file = folder / "verify.toml";
  write_file(file, resolved_toml(plan.config));
  // Flags, because a variable of the environment would overrule the file.
  const std::size_t keep = plan.kept.size() + 1;
  return {fs::read_symlink("/proc/self/exe").string(),
          "train",
          file.string(),
          "-n",
          fmt::format("{}", plan.ranks),
          "--verify-saves",
          fmt::format("{}", fmt::join(plan.saves, ",")),
          fmt::format("--run.dir={}", folder.string()),
          fmt::format("--run.threads={}", plan.config.run.threads),
          "--run.min_ranks=0",
          "--run.timeline=",  // another run's file
          "--run.tensorboard=false",
          "--train.sample=0",
          fmt::format("--checkpoint.keep={}", std::min(keep, plan.saves.size() + 1))};
}

// Returns the last lines of a file.
std::string tail(const fs::path& file) {
  constexpr std::size_t kMostBytes = 2000;
  const std::string text = read_file(file);
  if (text.size() <= kMostBytes) return text;
  const std::size_t begin = text.find('\n', text.size() - kMostBytes);
  return text.substr(begin == std::string::npos ? text.size() - kMostBytes : begin + 1);
}

}  // namespace

int run_verify(Arguments arguments) {
  CLI::App app(
      "Executes steps of a run again, and compares losses, gradient norms, weights and optimizer states with the "
      "run's\n"
      "records, bit for bit. Exit status 1: something differs, which is printed with its step. RUN is not changed.\n"
      "Keys that change no bit may be others than in the run: --zero.stage 1 --comm.transport in_process.",
      "zero verify");
  AuditRequest request;
  std::string run, steps;
  bool json = false;
  app.add_option("RUN", run, "folder of a run with checkpoints")->required();
  app.add_option("--steps", steps,
                 "steps A..B, from the states after A to those after B; default: first to last kept checkpoint");
  app.add_option("-n,--nproc-per-node", request.ranks, "number of ranks; default: as many as the run had")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", json, "print one JSON object");
  app.footer("--run.dir FOLDER keeps the second execution in that folder. `zero train --keys` explains all keys.");
  CommandLine line = split_command_line(arguments);
  std::vector<std::string> keys;
  for (const Option& option : options()) keys.push_back(fmt::format("--{}", option.name));
  if (!parse_flags(app, line.rest, keys)) return 0;
  request.run = run;
  request.overrides = std::move(line.overrides);
  request.environment = environment_of_process();
  if (!steps.empty()) parse_steps(steps, request);

  AuditPlan plan = plan_audit(request);
  compute_as_recorded(plan);
  const CaughtSignals signals;  // so a stop removes the folder
  const ExecutionFolder folder(plan);
  if (!plan.start_path.empty()) {
    lend_checkpoint(plan.start_path, CheckpointFolder(folder.path() / "checkpoints").path_of(plan.start));
    copy_companion(kWordsName, plan.run, folder.path());
  }
  const fs::path log = folder.path() / "verify.log";
  const double begin = monotonic_seconds();
  const ChildEnd end = run_child(words_of(plan, folder.path()), log);
  if (end.signal != 0) return 128 + end.signal;
  if (end.status != 0) {
    fmt::print(stderr, "{}zero verify: the execution ended with status {}; nothing was compared\n", tail(log),
               end.status);
    return end.status;
  }
  const Audit audit = compare_with_records(plan, folder.path(), [] { return CaughtSignals::caught() != 0; });
  if (CaughtSignals::caught() != 0) return 128 + CaughtSignals::caught();
  const Execution execution{.seconds = monotonic_seconds() - begin, .folder = folder.path_if_kept()};
  if (json) {
    fmt::print("{}\n", to_json(plan, audit, execution).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", to_text(plan, audit, execution));
  }
  return audit.differences.empty() ? 0 : kDifferentStatus;
}

}  // namespace zero::cli
