#include "app/cli/verbs.h"

// `zero train`: checks everything that does not need libtorch, then trains in this process, or starts ranks that train.
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/text/bytes.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/in_memory_checkpoints.h"
#include "zero/comm/rendezvous/detect_ranks.h"
#include "zero/comm/transport/open_device_link.h"
#include "zero/comm/transport/open_transport.h"
#include "zero/comm/transport/record_flight.h"
#include "zero/device/open_device.h"

#include "app/cli/command/configured.h"
#include "app/cli/command/torch_library.h"
#include "app/cli/gpu_link.h"
#include "app/config/options/option.h"
#include "app/config/rules/fit_to_world.h"
#include "app/config/rules/pipeline_rules.h"
#include "app/launch/flight_records.h"
#include "app/launch/launch.h"

namespace zero::cli {
namespace {

constexpr const char* kSavesFlag = "--verify-saves";

// Adds flags for users who start each rank by hand, or with a launcher that zero.cpp does not recognise.
void add_rank_flags(CLI::App& app, RankFlags& ranks) {
  app.add_option("--rank", ranks.rank, "rank of this process, if no launcher sets it");
  app.add_option("--world-size", ranks.world, "number of ranks");
  app.add_option("--local-rank", ranks.local_rank, "rank of this process among the ranks of this machine");
  app.add_option("--local-world-size", ranks.local_world, "number of ranks on this machine");
  app.add_option("--master-addr", ranks.master_addr, "address of rank 0");
  app.add_option("--master-port", ranks.master_port, "port of rank 0");
  app.add_option("--run-id", ranks.run_id, "name of the run, by which its ranks on one machine find each other");
}

void check_min_ranks(const LoadedConfig& loaded, int num_ranks) {
  const RunKeys& run = loaded.config.run;
  const auto origin = loaded.origins.find("run.min_ranks");
  const auto refuse = [&](const std::string& reason, const std::string& remedy) {
    throw ConfigError(located(origin == loaded.origins.end() ? "" : origin->second, "run.min_ranks"),
                      std::to_string(run.min_ranks), reason, remedy);
  };
  if (run.min_ranks > num_ranks)
    refuse(fmt::format("more than the {} ranks of this run", num_ranks), fmt::format("allowed: 0 to {}", num_ranks));
  if (run.min_ranks > 0 && run.max_restarts == 0)
    refuse("it matters only after a restart, and run.max_restarts = 0",
           "set run.max_restarts, or leave run.min_ranks out");
}

// Warns of keys that only a launcher implements, if there is no launcher.
void warn_of_launchers_keys(const Config& config, const RankFlags& ranks) {
  if (detect_ranks(ranks, std::getenv).source != RankEnvironment{}.source) return;
  std::vector<std::string_view> keys;
  if (config.run.max_restarts > 0) keys.emplace_back("run.max_restarts");
  if (config.checkpoint.memory_every > 0) keys.emplace_back("checkpoint.memory_every");
  if (!keys.empty())
    ZERO_LOG(warn, "{}: has no effect, because no launcher can start ranks again; -n 1 uses a launcher",
             fmt::join(keys, ", "));
}

// Returns the program for fewer ranks with the same number of samples a step: each rank takes more batches before the
// update.
WorldProgram for_world(int world, std::vector<std::string> program, const Config& config) {
  const TrainKeys& train = config.train;
  require_divides(config, world, "parallel.pipeline");
  const int holders = world / config.parallel.pipeline;
  require_whole_groups(holders, config);
  require_secondary_groups(holders, config);
  Config fewer = config;
  const std::int64_t accumulate = fewer.train.accumulate = accumulate_in(world, config);
  require_passes(fewer);
  // The last flags override earlier ones.
  program.push_back(fmt::format("--train.batch={}", train.batch));
  program.push_back(fmt::format("--train.accumulate={}", accumulate));
  return {.words = std::move(program),
          .change = fmt::format("accumulate {} -> {} keeps the global batch of {}", train.accumulate, accumulate,
                                train.global_batch)};
}

int start_ranks(int num_ranks, const ConfigArguments& config, const Config& fitted, const TrainRequest& request) {
  const RunKeys& run = fitted.run;
  LaunchOptions options;
  options.program = {std::filesystem::read_symlink("/proc/self/exe").string(), "train"};
  for (auto& argument : config.arguments()) options.program.push_back(std::move(argument));
  if (request.overwrite) options.program.emplace_back("--overwrite");
  if (!request.replay.empty()) options.program.insert(options.program.end(), {"--replay", request.replay});
  if (!request.saves.empty())
    options.program.insert(options.program.end(), {kSavesFlag, fmt::format("{}", fmt::join(request.saves, ","))});
  options.ranks = num_ranks;
  options.max_restarts = static_cast<int>(run.max_restarts);
  options.min_ranks = static_cast<int>(run.min_ranks);
  const SyncPlan& sync = fitted.engine.sync;
  if (sync.mode == SyncMode::kAsync || (sync.has_servers() && sync.mode == SyncMode::kSync && sync.quorum > 0))
    options.spared_from = sync.servers;
  options.program_for = [program = options.program, fitted](int world) { return for_world(world, program, fitted); };
  const std::filesystem::path dir = run.dir;
  options.progress = [folder = CheckpointFolder(dir / "checkpoints")](const MemoryFiles& kept) {
    const auto entries = folder.list();
    std::int64_t newest = entries.empty() ? 0 : entries.front().step;
    for (const std::string& name : kept.names()) newest = std::max(newest, kept_step(name));
    return newest;
  };
  const std::filesystem::path flight = flight_folder(std::getenv, dir / "flight");
  ::setenv("ZERO_FLIGHT_DIR", flight.c_str(), /*overwrite=*/0);  // for the ranks; only the launcher prints it
  options.after_failure = [flight](const MemoryFiles& kept, std::span<const RankEnd> ends, int) {
    return write_flights(flight, kept, ends);
  };
  return launch(options);
}

// Checks the device here once instead of in each rank, and before libtorch is opened.
void require_device(const Config& config, std::optional<int> num_ranks) {
  if (config.run.device == "cpu") return;
  const GpusHere here = find_gpus(/*memory=*/false);
  device_of_rank(config.run.device, 0, here);
  if (config.comm.transport == "nccl") require_gpu_link(config, here, num_ranks, device_link_here());
}

// Prints the plan of `zero plan`, the reasons why the run would be refused, and its duration.
int plan_only(LoadedConfig loaded, int num_ranks, bool json, bool overwrites) {
  fit_to_world(loaded, num_ranks);
  const Config& config = loaded.config;
  if (!json)
    fmt::print(
        "dry run: {} on {}, {} a step, into {}\n",
        config.train.epochs > 0 ? format_count(config.train.epochs, "epoch") : format_count(config.train.steps, "step"),
        format_count(num_ranks, "rank"), format_count(config.train.global_batch, "sample"), config.run.dir);
  return open_torch_verbs().plan({.loaded = loaded,
                                  .world = num_ranks,
                                  .schedule = false,
                                  .json = json,
                                  .profile = "",
                                  .trains = true,
                                  .overwrites = overwrites});
}

}  // namespace

int run_train(Arguments arguments) {
  CLI::App app(
      "Trains a model with -n ranks, or with the ranks of a launcher (torchrun, mpirun, srun), or with one rank.",
      "zero train");
  std::optional<int> num_ranks;
  bool overwrite = false;
  app.add_option("-n,--nproc-per-node,--nproc_per_node", num_ranks, "number of ranks to start on this machine");
  app.add_flag("--overwrite", overwrite, "replace the run that is in the run folder");
  std::string replay;
  app.add_option("--replay", replay, "folder of a run with servers: repeats its order of gradients, for the same bits");
  bool dry_run = false;
  app.add_flag("--dry-run", dry_run,
               "check the run, print the plan and how long the run takes, and stop without writing");
  bool json = false;
  app.add_flag("--json", json, "with --dry-run: print the plan and the time as JSON")->needs("--dry-run");
  std::vector<std::int64_t> saves;
  app.add_option(kSavesFlag, saves, "steps after which `zero verify` saves, ascending; the run ends after the last")
      ->delimiter(',')
      ->group("");  // hidden: a user gives `zero verify --steps`
  RankFlags ranks;
  add_rank_flags(app, ranks);
  ConfigArguments config(app);
  if (!config.parse(app, arguments)) return 0;
  if (num_ranks && (*num_ranks < 1 || *num_ranks > kMostLocalRanks)) {
    throw ConfigError("-n", std::to_string(*num_ranks), "not a number of ranks for one machine",
                      fmt::format("allowed: 1 to {}", kMostLocalRanks));
  }

  if (num_ranks && (ranks.rank || ranks.world)) {
    throw ConfigError("-n", std::to_string(*num_ranks), "it starts ranks, but --rank makes this process a rank",
                      "give only one of the two");
  }

  TrainRequest request{.loaded = config.load(/*check_files=*/true),
                       .overwrite = overwrite,
                       .replay = replay,
                       .ranks = ranks,
                       .in_process_ranks = {},
                       .saves = saves};
  require_device(request.loaded.config, num_ranks);
  require_transport(request.loaded.config.comm.transport);
  if (!num_ranks) warn_of_launchers_keys(request.loaded.config, ranks);
  const bool threads = request.loaded.config.comm.transport == "in_process";
  if (dry_run && !replay.empty())
    throw ConfigError("--replay", replay, "a dry run does not read what a run recorded", "leave out one of the two");
  if (num_ranks) {
    LoadedConfig checked = request.loaded;  // checked here once instead of in each rank
    fit_to_world(checked, *num_ranks);
    if (!threads) check_min_ranks(checked, *num_ranks);
    if (!threads && !dry_run) {
      return start_ranks(*num_ranks, config, checked.config, request);
    }
  }
  if (dry_run) return plan_only(request.loaded, num_ranks.value_or(1), json, overwrite);
  if (threads) request.in_process_ranks = num_ranks.value_or(1);
  return open_torch_verbs().train(request);
}

}  // namespace zero::cli
