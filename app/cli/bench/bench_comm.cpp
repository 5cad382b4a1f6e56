// `zero bench comm`: all_reduce between ranks of this machine, against a probe that touches as much memory. All ranks
// run the probe at the same time, each in its own memory (all_reduce_probe.h).
//
// The command starts itself again as the ranks (`--as-rank`), so the transport connects processes, as in a run. A
// launcher can also start the ranks: `mpirun -n 2 zero bench comm --transports mpi`.
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "zero/base/text/bytes.h"
#include "zero/comm/transport/open_transport.h"
#include "zero/device/open_device.h"
#include "zero/memory/account/host_memory.h"

#include "app/cli/bench/bench.h"
#include "app/cli/bench/comm_bench.h"
#include "app/cli/bench/parts/all_reduce_probe.h"
#include "app/cli/command/flags.h"
#include "app/launch/launch.h"

namespace zero::cli {
namespace {

struct Row {
  std::int64_t bytes = 0;
  TimedByAll probe, all_reduce;  // seconds of one run or one collective
};

Row measure(Communicator& comm, std::int64_t bytes, int rounds) {
  Row row{.bytes = bytes, .probe = {}, .all_reduce = {}};
  const Allocation window = comm.allocate(static_cast<std::size_t>(bytes));
  std::memset(window.data(), 0, window.size());
  const std::span<float> data{reinterpret_cast<float*>(window.data()), static_cast<std::size_t>(bytes) / sizeof(float)};
  AllReduceProbe probe(bytes, comm.world());
  const int count = repeats_of(bytes);
  for (int round = 0; round < rounds; ++round) {
    row.probe.time(comm, count, [&] { probe.run(); });
    row.all_reduce.time(comm, count, [&] { all_reduce(comm, data, {}); });
  }
  return row;
}

struct Series {
  std::string transport;
  std::vector<Row> rows;
};

nlohmann::ordered_json to_json(const Series& series) {
  auto sizes = nlohmann::ordered_json::array();
  for (const auto& row : series.rows) {
    sizes.push_back({{"bytes", row.bytes},
                     {"probe_best_s", row.probe.seconds.best()},
                     {"probe_median_s", row.probe.seconds.median()},
                     {"all_reduce_best_s", row.all_reduce.seconds.best()},
                     {"all_reduce_median_s", row.all_reduce.seconds.median()},
                     {"ratio_best", row.probe.seconds.best() / row.all_reduce.seconds.best()},
                     {"ratio_median", row.probe.seconds.median() / row.all_reduce.seconds.median()}});
  }
  return {{"transport", series.transport}, {"sizes", sizes}};
}

void print_json(std::span<const Series> all, const CommBenchOptions& options) {
  nlohmann::ordered_json out{{"bench", "comm"}, {"world", options.ranks}, {"rounds", options.rounds}};
  for (const auto& series : all) out["transports"].push_back(to_json(series));
  fmt::print("{}\n", out.dump(2));
}

void print_table(std::span<const Series> all, const CommBenchOptions& options) {
  fmt::print("all_reduce, {} ranks, {} rounds; the probe adds and copies as many bytes in each rank's own memory\n",
             options.ranks, options.rounds);
  fmt::print("  {:<14}{:>10}{:>14}{:>14}{:>14}{:>9}{:>12}\n", "transport", "size", "best", "median", "probe", "ratio",
             "to first");
  for (const auto& series : all) {
    for (std::size_t i = 0; i < series.rows.size(); ++i) {
      const Row& row = series.rows[i];
      const double median = row.all_reduce.seconds.median();
      fmt::print("  {:<14}{:>10}{:>11.3f} ms{:>11.3f} ms{:>11.3f} ms{:>9.3f}{:>11.2f}x\n", series.transport,
                 format_bytes(row.bytes), 1e3 * row.all_reduce.seconds.best(), 1e3 * median,
                 1e3 * row.probe.seconds.median(), row.probe.seconds.median() / median,
                 median / all.front().rows[i].all_reduce.seconds.median());
    }
  }
}

RankEnvironment environment_of_ranks() {
  return detect_ranks({}, [](const char* name) { return std::getenv(name); });
}

int run_rank(CommBenchOptions options) {
  const auto environment = environment_of_ranks();
  options.ranks = environment.world;
  std::vector<Series> all;
  int rank = 0;
  for (const auto& transport : options.transports) {
    const auto comm = open_transport(transport, environment, std::chrono::seconds(60));
    rank = comm->rank();
    Series series{transport == "auto" ? std::string(comm->transport()) : transport, {}};
    for (const std::int64_t bytes : kCommBenchSizes) {
      if (bytes <= options.mib << 20) series.rows.push_back(measure(*comm, bytes, options.rounds));
    }
    all.push_back(std::move(series));
  }
  if (rank == 0) options.json ? print_json(all, options) : print_table(all, options);
  return 0;
}

// Returns shared_memory, and also gloo if its plug-in is installed: most users would otherwise use gloo.
std::vector<std::string> default_transports() {
  std::vector<std::string> out{"shared_memory"};
  for (const auto& status : transport_statuses()) {
    if (status.name == "gloo" && status.available) out.push_back(status.name);
  }
  return out;
}

}  // namespace

int run_bench_comm(Arguments arguments) {
  CLI::App app("Measures all_reduce between ranks of this machine against its memory.", "zero bench comm");
  CommBenchOptions options;
  bool as_rank = false;
  app.add_option("-n,--nproc-per-node", options.ranks, "number of ranks")
      ->capture_default_str()
      ->check(CLI::Range(2, 64));
  app.add_option("--rounds", options.rounds, "measurements of each part")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--mib", options.mib, "largest size to measure, of 64 KiB, 1, 32 and 256 MiB")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  app.add_option("--transports", options.transports,
                 "transports to measure: shared_memory,gloo; between GPUs also nccl, under mpirun also mpi")
      ->delimiter(',');
  app.add_option("--device", options.device,
                 "device of units: cpu, cuda (a GPU for each rank) or cuda:1; measures gather and sum, not all_reduce");
  app.add_flag("--json", options.json, "print one JSON object");
  app.add_flag("--as-rank", as_rank)->group("");  // hidden: this process is a rank that this verb started
  if (!parse_flags(app, arguments)) return 0;
  if (as_rank || environment_of_ranks().world > 1) {
    if (options.transports.empty()) options.transports = {"auto"};  // of a launcher's ranks, such as mpirun's
    return options.device.empty() ? run_rank(options) : bench_comm_rank_on_device(options, environment_of_ranks());
  }
  const std::string device =
      options.device.empty() ? "cpu" : device_of_rank(options.device, 0, find_gpus(/*memory=*/false));
  for (const auto& name : options.transports) {
    if (name == "shared_memory" || name == "gloo") continue;
    if (name == "nccl" && device != "cpu") continue;
    if (name == "nccl")
      throw ConfigError("--transports", name, "it moves bytes between GPUs, and no --device names one",
                        "add --device cuda, or use another transport");
    throw ConfigError("--transports", name, "its ranks are not started by this verb",
                      fmt::format("mpirun -n {} zero bench comm --transports {}", options.ranks, name));
  }

  // The window, and at most three arrays of the probe. On a device: the unit and its shard on the device and in
  // staging, and two pinned arrays for the copies.
  const std::int64_t arrays = options.device.empty() ? 4 : 6;
  require_memory(options.ranks * (arrays * options.mib + 64) << 20, "use less with --mib");
  LaunchOptions ranks;
  ranks.ranks = options.ranks;
  ranks.program = {std::filesystem::read_symlink("/proc/self/exe").string(), "bench", "comm", "--as-rank"};
  ranks.program.insert(ranks.program.end(), arguments.begin(), arguments.end());
  if (options.transports.empty()) {
    ranks.program.push_back(fmt::format("--transports={}", fmt::join(default_transports(), ",")));
  }
  return launch(ranks);
}

}  // namespace zero::cli
