// `zero sweep`: trains once for each combination of values, one run after the other, then compares all runs.
#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/error/exit_status.h"
#include "zero/base/files/file.h"

#include "app/cli/command/child_process.h"
#include "app/cli/command/configured.h"
#include "app/cli/command/torch_library.h"
#include "app/cli/sweep_grid.h"
#include "app/cli/verbs.h"
#include "app/config/resolved.h"
#include "app/config/rules/fit_to_world.h"
#include "app/report/page/comparison.h"
#include "app/report/page/report_page.h"
#include "app/report/same_configuration.h"
#include "app/train/folder/run_files.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

struct SweepRun {
  SweepPoint point;
  fs::path folder;
  std::vector<std::string> words;  // arguments of `zero train`
};

bool is_done(const SweepRun& run) {
  return fs::exists(RunFiles(run.folder).report);
}

// Returns whether an earlier sweep began the run and left nothing from which it continues. check() has compared the
// configurations, so the run may begin again.
bool begins_again(const SweepRun& run) {
  const RunFiles files(run.folder);
  return fs::exists(files.config) && !is_done(run) && files.checkpoints.list().empty();
}

SweepRun run_of(const SweepPoint& point, const fs::path& dir, const ConfigArguments& config, std::optional<int> ranks) {
  SweepRun run{.point = point, .folder = dir / point.name, .words = {}};
  run.words = {fs::read_symlink("/proc/self/exe").string(), "train"};
  for (std::string& word : config.arguments()) run.words.push_back(std::move(word));
  for (const auto& [key, value] : point.settings) run.words.push_back(fmt::format("--{}={}", key, value));
  run.words.push_back(fmt::format("--run.dir={}", run.folder.string()));
  if (point.ranks) ranks = point.ranks;
  if (ranks) {
    run.words.emplace_back("-n");
    run.words.push_back(std::to_string(*ranks));
  }
  return run;
}

// Returns the configuration that the run records. A run records steps instead of epochs; they are computed only to
// compare them with a record, because that takes libtorch and the data.
std::string configuration_of(const ConfigArguments& config, std::vector<std::pair<std::string, std::string>> settings,
                             const fs::path& folder, int ranks) {
  settings.emplace_back("run.dir", folder.string());
  LoadedConfig loaded = config.load(/*check_files=*/true, settings);
  fit_to_world(loaded, ranks);
  if (loaded.config.train.epochs > 0 && fs::exists(RunFiles(folder).config))
    settle_epochs(loaded, open_torch_verbs().samples_of_pass(loaded.config).value_or(0));
  return resolved_toml(loaded.config);
}

// Returns whether the configuration without the sweep's values is refused for the same reason, so no value is at fault.
bool is_refused_alike(const ConfigError& refusal, const ConfigArguments& config, const fs::path& folder, int ranks) {
  try {
    configuration_of(config, {}, folder, ranks);
  } catch (const ConfigError& error) {
    return std::string_view(error.what()) == refusal.what();
  }
  return false;
}

// Checks a run's configuration, and compares it with that of a run in the folder, finished or not. All runs are checked
// before the first run starts.
void check(const SweepRun& run, const ConfigArguments& config, int ranks) {
  std::string wanted;
  try {
    wanted = configuration_of(config, run.point.settings, run.folder, run.point.ranks.value_or(ranks));
  } catch (const ConfigError& error) {
    if (is_refused_alike(error, config, run.folder, ranks)) throw;
    throw ConfigError("--over", run.point.text, error.what(),
                      "no run is started, because each combination must be possible: leave this value out");
  }
  const fs::path recorded = RunFiles(run.folder).config;
  if (!fs::exists(recorded) && !is_done(run)) return;
  const std::string differs = changed_keys(read_file(recorded), wanted);
  if (!differs.empty())
    throw ConfigError("--dir", run.folder.string(), fmt::format("a run of another configuration is there:{}", differs),
                      "name another folder, or remove that run");
}

// Returns a line such as "val_loss 1.8781, 33.1 ms a step, 11.2 MiB".
std::string figures_of(const page::RecordedRun& run) {
  const std::vector<page::RecordedRun> one{run};
  std::string line;
  for (const page::ComparedFigure& figure : page::compare(one).figures) {
    for (const auto& [key, name] : {std::pair{"val_loss", "val_loss "}, std::pair{"accuracy", "accuracy "},
                                    std::pair{"step_seconds", "a step "}, std::pair{"device_peak_bytes", "device "}}) {
      if (figure.key == key)
        line +=
            fmt::format("{}{}{}", line.empty() ? "" : ", ", name, page::format_figure(figure.unit, figure.values[0]));
    }
  }
  return line;
}

std::optional<page::RecordedRun> finished_run(const SweepRun& run) {
  if (!is_done(run)) return std::nullopt;
  return page::read_run(run.folder);
}

struct SweepEnd {
  int status = 0;           // exit status of the first run that failed; 0: none failed
  bool is_stopped = false;  // by a signal to this process, so runs are missing
};

// Returns the exit status of a run that ended without a report.
int failure_of_run(const ChildEnd& end) {
  return end.status == 0 ? kRankFailedStatus : end.status;
}

std::string failure_line(const ChildEnd& end, const fs::path& log) {
  if (end.status == 0)
    return fmt::format("stopped before its end; repeat the command to continue it; see {}", log.string());
  return fmt::format("failed with exit status {}; see {}", end.status, log.string());
}

SweepEnd train_all(const std::vector<SweepRun>& runs) {
  SweepEnd result;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const SweepRun& run = runs[i];
    fmt::print("[{}/{}] {}: ", i + 1, runs.size(), run.point.text);
    std::fflush(stdout);
    if (const auto before = finished_run(run)) {
      fmt::print("done before; {}\n", figures_of(*before));
      continue;
    }
    const fs::path log = run.folder.string() + ".log";
    std::vector<std::string> words = run.words;
    if (begins_again(run)) words.emplace_back("--overwrite");
    const ChildEnd end = run_child(words, log);
    if (end.signal != 0) {
      fmt::print("stopped; the same command continues from here\n");
      return {.status = 128 + end.signal, .is_stopped = true};
    }
    const auto done = end.status == 0 ? finished_run(run) : std::nullopt;
    fmt::print("{}\n", done ? figures_of(*done) : failure_line(end, log));
    if (!done && result.status == 0) result.status = failure_of_run(end);
  }
  return result;
}

// Returns the key and the title of each column.
std::vector<std::pair<std::string, std::string>> columns() {
  std::vector<std::pair<std::string, std::string>> all{{"val_loss", "val_loss"},
                                                       {"accuracy", "accuracy"},
                                                       {"step_seconds", "a step"},
                                                       {"units_per_second", "a second"},
                                                       {"utilization", "utilization"}};
  for (const TierFacts& tier : kTierTable) all.emplace_back(page::key_of_bytes(tier), tier.name);
  all.emplace_back("sent_bytes", "sent a step");
  return all;
}

// Prints a line for each run, because there may be many runs. Leaves out a column for which no run has a value.
void print_table(const page::Comparison& comparison) {
  const auto all = columns();
  std::size_t width = 3;
  for (const std::string& name : comparison.names) width = std::max(width, name.size());
  const auto print_line = [&](const std::string& name, const auto& cell) {
    fmt::print("{:<{}}", name, width);
    for (const auto& [key, title] : all) {
      const auto figure = std::ranges::find(comparison.figures, key, &page::ComparedFigure::key);
      if (figure != comparison.figures.end()) fmt::print("  {:>11}", cell(*figure, title));
    }
    fmt::print("\n");
  };
  fmt::print("\n");
  print_line("run", [](const page::ComparedFigure&, const std::string& title) { return title; });
  for (std::size_t run = 0; run < comparison.names.size(); ++run) {
    print_line(comparison.names[run], [run](const page::ComparedFigure& figure, const std::string&) {
      return page::format_figure(figure.unit, figure.values[run]);
    });
  }
  fmt::print("{}", page::notes_text(comparison));
}

void compare_all(const std::vector<SweepRun>& runs, const fs::path& dir) {
  std::vector<std::string> folders;
  for (const SweepRun& run : runs) {
    if (is_done(run)) folders.push_back(run.folder.string());
  }
  if (folders.empty()) return;
  const auto recorded = page::read_runs(folders);
  print_table(page::compare(recorded));
  const fs::path file = dir / "report.html";
  const std::string made = fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)));
  write_file(file, page::report_page(recorded, made), {.durable = false});
  fmt::print("\n{}: {}\n", file.string(),
             folders.size() == 1 ? "1 run" : fmt::format("{} runs side by side", folders.size()));
}

// Checks that the folder of the runs is a possible folder, and that it and the number of ranks are each given only
// once.
void require_one_place(const ConfigArguments& config, const std::string& dir, const std::vector<SweepPoint>& points,
                       std::optional<int> ranks) {
  std::error_code ignored;
  fs::path there = fs::absolute(dir, ignored);
  while (!fs::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, ignored))
    throw ConfigError("--dir", dir, fmt::format("{} is not a folder", there.string()), "name a folder; it is created");
  for (const std::string& word : config.arguments())
    if (word.starts_with("--run.dir"))
      throw ConfigError("--run.dir", "", "each run of a sweep has a folder of its own", "name their place with --dir");
  if (ranks && points.front().ranks)
    throw ConfigError("-n", std::to_string(*ranks), "--over ranks=... says the numbers of ranks",
                      "give only one of the two");
}

}  // namespace

int run_sweep(Arguments arguments) {
  CLI::App app(
      "Trains once for each combination of values, and compares the runs in a table and an HTML page. Skips finished "
      "runs.",
      "zero sweep");
  std::vector<std::string> axes;
  std::string dir = "runs/sweep";
  std::optional<int> ranks;
  app.add_option("--over", axes, "a key and its values, such as zero.stage=0,1,2,3, or ranks=1,2; may be repeated")
      ->required()
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE,...");
  app.add_option("--dir", dir, "folder of the runs")->capture_default_str();
  app.add_option("-n,--nproc-per-node", ranks, "number of ranks of each run")->check(CLI::Range(1, 1024));
  ConfigArguments config(app);
  if (!config.parse(app, arguments)) return 0;
  const SweepGrid grid(axes);
  std::vector<SweepRun> runs;
  require_one_place(config, dir, grid.points(), ranks);
  for (const SweepPoint& point : grid.points()) {
    runs.push_back(run_of(point, dir, config, ranks));
    check(runs.back(), config, ranks.value_or(1));
  }
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) throw ConfigError("--dir", dir, error.message(), "name a folder that can be made");
  const SweepEnd end = train_all(runs);
  if (!end.is_stopped) compare_all(runs, dir);
  return end.status;
}

}  // namespace zero::cli
