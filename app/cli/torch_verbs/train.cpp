// `zero train`: this process is one rank, or all ranks as threads.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include "zero/base/error/error.h"
#include "zero/base/error/exit_status.h"
#include "zero/base/error/log.h"
#include "zero/base/process/descriptor_limit.h"
#include "zero/comm/board/arrivals.h"
#include "zero/comm/collectives.h"
#include "zero/memory/account/host_memory.h"
#include "zero/serve/role/make_role.h"
#include "zero/torch/activations/large_blocks.h"

#include "app/cli/torch_verbs/host_group.h"
#include "app/cli/torch_verbs/job.h"
#include "app/cli/torch_verbs/run_devices.h"
#include "app/cli/torch_verbs/verbs.h"
#include "app/config/options/with_origins.h"
#include "app/config/rules/fit_to_world.h"
#include "app/train/folder/run_launch.h"
#include "app/train/run/trainer.h"

namespace zero::cli {
namespace {

// Returns the number of ranks that `zero launch` was asked for, if it continues without a rank; else 0.
std::int64_t asked_world() {
  const char* const asked = std::getenv("ZERO_ASKED_WORLD");
  std::int64_t world = 0;
  if (asked == nullptr) return 0;
  const std::string_view text(asked);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), world);
  if (error != std::errc() || end != text.data() + text.size() || world < 1)
    throw ConfigError("ZERO_ASKED_WORLD", text, "is not a whole number from 1", "zero launch sets it; leave it unset");
  return world;
}

int status_of(const TrainResult& result) {
  if (result.stop_signal != 0 && !result.saved) return 128 + result.stop_signal;
  return result.save_failed ? kIoFailedStatus : 0;
}

// The place of a rank: a process, or a thread of a process that has all ranks.
struct RankPlace {
  const RunDevices& devices;
  int local_rank = 0;
};

// With "auto" each machine chooses for itself, so the ranks must compare.
void require_one_kind(World& world, const std::string& device) {
  const std::vector<std::int64_t> on_gpu = all_gather_value(world.communicator(), device == "cpu" ? 0 : 1);
  const auto other = std::ranges::find_if(on_gpu, [&](std::int64_t is_gpu) { return is_gpu != on_gpu.front(); });
  if (other == on_gpu.end()) return;
  throw ConfigError("run.device", "auto",
                    fmt::format("rank {} has {} GPU, and rank 0 {}", other - on_gpu.begin(), *other == 1 ? "a" : "no",
                                on_gpu.front() == 1 ? "has one" : "has none"),
                    "use run.device cpu, or machines that are alike (`zero doctor` says what each has)");
}

// Returns the exit status.
int train_rank(const TrainRequest& request, World& world, const RankPlace& place, const StopSignal& stop) {
  LoadedConfig loaded = request.loaded;
  // If `zero launch` was asked for more ranks, the global batch is that of the first world.
  const std::int64_t asked = std::max<std::int64_t>(asked_world(), world.size());
  fit_to_world(loaded, asked);
  if (loaded.config.train.epochs > 0) settle_epochs(loaded, samples_of_pass(loaded.config).value_or(0));
  if (asked > world.size()) loaded.config.train.accumulate = accumulate_in(world.size(), loaded.config);
  TrainJob job = make_job(loaded.config, world.local_size());
  job.device = place.devices.of_rank(place.local_rank);
  HostGroup group = group_of_run(loaded, world, place.local_rank, job.device);
  if (group.ranks > 0) job.attach.group = group.ranks;
  job.group_line = std::move(group.line);
  job.attach = with_weights_of_owners(std::move(job.attach), world.communicator(), world.local_size());
  job.launch = detect_launch(std::getenv, ::getppid());
  job.overwrite = request.overwrite;
  job.replay = request.replay;
  job.saves = request.saves;
  job.notes = loaded.notes;
  const bool is_first = !is_replacement(world.communicator());  // a replacement's predecessor has compared
  if (loaded.config.run.device == "auto" && is_first) require_one_kind(world, job.device);
  return status_of(train(job, world, {.out = std::cout, .style = ProgressStyle::of_standard_output(), .stop = &stop}));
}

// Adds the rank to libtorch's errors, which do not contain it.
int train_named_rank(const TrainRequest& request, World& world, const RankPlace& place, const StopSignal& stop) {
  try {
    return with_origins(request.loaded.origins, [&] { return train_rank(request, world, place, stop); });
  } catch (const c10::Error& error) {
    if (world.size() == 1) throw;
    throw Error(fmt::format("rank {}: {}", world.rank(),
                            log_enabled(LogLevel::debug) ? error.what() : error.what_without_backtrace()));
  }
}

// Throws the cause. If one rank fails, the others fail with CommError because of it, so the cause is another error.
void rethrow_cause(const std::vector<std::exception_ptr>& errors) {
  std::exception_ptr consequence;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const CommError&) {
      if (!consequence) consequence = error;
    }
  }
  if (consequence) std::rethrow_exception(consequence);
}

int train_threads(const TrainRequest& request, int num_ranks, const WorldOptions& options, const RunDevices& devices,
                  const StopSignal& stop) {
  std::vector<World> worlds = World::in_process(num_ranks, options);
  std::vector<std::exception_ptr> errors(worlds.size());
  std::vector<int> statuses(worlds.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < worlds.size(); ++rank) {
    threads.emplace_back([&, rank] {
      // The thread owns the world: a rank that fails destroys it, and so leaves the run, and the other ranks get an
      // error.
      World world = std::move(worlds[rank]);
      try {
        statuses[rank] = train_named_rank(request, world, {devices, static_cast<int>(rank)}, stop);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  rethrow_cause(errors);
  return *std::max_element(statuses.begin(), statuses.end());
}

}  // namespace

int train_verb(const TrainRequest& request) {
  keep_heap();
  keep_large_blocks();
  const DescriptorLimit descriptors;  // every shard of the data stays open
  const StopSignal stop;              // before libtorch starts threads for a GPU, so they get no signals
  const RunDevices devices(request.loaded);
  at::set_num_interop_threads(1);
  WorldOptions options = request.loaded.config.comm;
  options.ranks = request.ranks;
  if (request.in_process_ranks)
    return train_threads(request, static_cast<int>(*request.in_process_ranks), options, devices, stop);
  World world = World::from_environment(options);
  return train_named_rank(request, world, {devices, detect_ranks(request.ranks, std::getenv).local_rank}, stop);
}

}  // namespace zero::cli
