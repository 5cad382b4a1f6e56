// `zero bench comm`: all_reduce between ranks of this machine, against a probe that touches as much memory in every
// rank at the same time: each rank adds two blocks of bytes/world into a third, and copies the other blocks, all of it
// its own.
//
// The command starts itself again as the ranks (`--as-rank`), so that the transport meets processes, as in a run; or a
// launcher has started the ranks: `mpirun -n 2 zero bench comm --transports mpi`.
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "zero/base/bytes.h"
#include "zero/bench/bench.h"
#include "zero/bench/measurement.h"
#include "zero/comm/collectives.h"
#include "zero/comm/rank_sum.h"
#include "zero/command/flags.h"
#include "zero/launch/supervisor.h"
#include "zero/memory/host_memory.h"
#include "zero/rendezvous/detect_ranks.h"
#include "zero/transport/open_transport.h"

namespace zero::cli {
namespace {

struct CommBenchOptions {
  int ranks = 2;
  int rounds = 5;
  std::int64_t mib = 256;
  bool json = false;
  std::vector<std::string> transports;
};

constexpr std::array<std::int64_t, 4> kSizes{64 << 10, 1 << 20, 32 << 20, 256 << 20};

struct Row {
  std::int64_t bytes = 0;
  Measurement probe, all_reduce;  // seconds for one; the slowest rank's
};

// Small ones are repeated until the clock can see them.
int repeats(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>((64 << 20) / bytes, 1, 200));
}

class Probe {
 public:
  Probe(std::int64_t bytes, int world)
      : block_(bytes / world / 64 * 64),
        others_(block_ * (world - 1)),
        mine_(allocate_host(static_cast<std::size_t>(block_ + others_))),
        theirs_(allocate_host(static_cast<std::size_t>(block_ + others_))) {
    std::memset(mine_.data(), 0, mine_.size());
    std::memset(theirs_.data(), 0, theirs_.size());
  }

  void run() {
    const std::array<const std::byte*, 2> in{mine_.data(), theirs_.data()};
    sum_ranks({.in = in,
               .dtype = DType::kFloat32,
               .out = mine_.data(),
               .out_dtype = DType::kFloat32,
               .numel = block_ / 4,
               .accumulate = false},
              nullptr);
    std::memcpy(mine_.data() + block_, theirs_.data() + block_, static_cast<std::size_t>(others_));
  }

 private:
  std::int64_t block_, others_;
  Allocation mine_, theirs_;
};

Row measure(Communicator& comm, std::int64_t bytes, int rounds) {
  Row row{.bytes = bytes, .probe = {}, .all_reduce = {}};
  const Allocation window = comm.allocate(static_cast<std::size_t>(bytes));
  std::memset(window.data(), 0, window.size());
  const std::span<float> data{reinterpret_cast<float*>(window.data()), static_cast<std::size_t>(bytes) / sizeof(float)};
  Probe probe(bytes, comm.world());
  const int count = repeats(bytes);
  const auto timed = [&](Measurement& into, const auto& work) {
    comm.barrier({.control = true}).wait();
    Measurement local;
    const double seconds = local.time([&] {
      for (int i = 0; i < count; ++i) work();
    });
    const auto slowest = all_reduce_max(comm, static_cast<std::int64_t>(seconds * 1e9));
    into.add(static_cast<double>(slowest) / 1e9 / count);
  };
  for (int round = 0; round < rounds; ++round) {
    timed(row.probe, [&] { probe.run(); });
    timed(row.all_reduce, [&] { all_reduce(comm, data, {}); });
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
                     {"probe_best_s", row.probe.best()},
                     {"probe_median_s", row.probe.median()},
                     {"all_reduce_best_s", row.all_reduce.best()},
                     {"all_reduce_median_s", row.all_reduce.median()},
                     {"ratio_best", row.probe.best() / row.all_reduce.best()},
                     {"ratio_median", row.probe.median() / row.all_reduce.median()}});
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
      const double median = row.all_reduce.median();
      fmt::print("  {:<14}{:>10}{:>11.3f} ms{:>11.3f} ms{:>11.3f} ms{:>9.3f}{:>11.2f}x\n", series.transport,
                 format_bytes(row.bytes), 1e3 * row.all_reduce.best(), 1e3 * median, 1e3 * row.probe.median(),
                 row.probe.median() / median, median / all.front().rows[i].all_reduce.median());
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
    Series series{transport, {}};
    for (const std::int64_t bytes : kSizes) {
      if (bytes <= options.mib << 20) series.rows.push_back(measure(*comm, bytes, options.rounds));
    }
    all.push_back(std::move(series));
  }
  if (rank == 0) options.json ? print_json(all, options) : print_table(all, options);
  return 0;
}

// shared_memory, and gloo next to it where the plug-in is there: what most would use instead.
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
  app.add_option("--transports", options.transports, "transports to measure: shared_memory,gloo; under mpirun also mpi")
      ->delimiter(',');
  app.add_flag("--json", options.json, "print one JSON object");
  app.add_flag("--as-rank", as_rank)->group("");  // hidden: one of the ranks that this verb starts
  if (!parse_flags(app, arguments)) return 0;
  if (as_rank || environment_of_ranks().world > 1) return run_rank(options);
  for (const auto& name : options.transports) {
    if (name == "shared_memory" || name == "gloo") continue;
    throw ConfigError("--transports", name, "its ranks are not started by this verb",
                      fmt::format("mpirun -n {} zero bench comm --transports {}", options.ranks, name));
  }

  require_memory(options.ranks * (3 * options.mib + 64) << 20, "use less with --mib");
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
