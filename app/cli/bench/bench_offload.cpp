// `zero bench offload`: an optimizer step with moments on disk. Each tile is read, updated and written back. Nothing
// else runs, so a step takes at least as long as the longest of its three parts. The same run probes each part:
// - a plain io_uring loop reads as many bytes, and writes as many bytes;
// - the same update runs with everything in memory;
// - a loop reads and writes at the same time, the limit of a disk that shares its speed between both.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "zero/base/text/bytes.h"

#include "app/cli/bench/bench.h"
#include "app/cli/bench/offload_bench.h"
#include "app/cli/command/flags.h"

namespace zero::cli {
namespace {

struct MeasuredStep {
  Measurement read, write, both, update, step;
  double best() const { return std::max({read.best(), write.best(), update.best()}); }
  double median() const { return std::max({read.median(), write.median(), update.median()}); }
  // The limit of a disk that reads and writes in turns.
  double best_in_turns() const { return std::max(read.best() + write.best(), update.best()); }
  double median_in_turns() const { return std::max(read.median() + write.median(), update.median()); }
  double best_of_both() const { return std::max(both.best(), update.best()); }
  double median_of_both() const { return std::max(both.median(), update.median()); }
  bool restless() const { return std::max(read.spread(), write.spread()) > kRestless; }
};

MeasuredStep measure(const OffloadBenchOptions& options, DiskProbe& probe, MomentStep& resident, MomentStep& step) {
  MeasuredStep m;
  // The first writes to preallocated files, and the first accesses to memory, are not measured.
  probe.write();
  resident.run();
  step.run();
  for (int round = 0; round < options.rounds; ++round) {
    m.write.time([&] { probe.write(); });
    m.read.time([&] { probe.read(); });
    m.both.time([&] { probe.read_and_write(); });
    m.update.time([&] { resident.run(); });
    m.step.time([&] { step.run(); });
  }
  return m;
}

void print_json(const OffloadBenchOptions& options, const std::string& tier, const MeasuredStep& m) {
  fmt::print("{}\n", nlohmann::ordered_json{{"bench", "offload"},
                                            {"tier", tier},
                                            {"dirs", options.step.folders},
                                            {"moment_bytes", options.step.mib << 20},
                                            {"depth", options.step.depth},
                                            {"threads", options.step.threads},
                                            {"rounds", options.rounds},
                                            {"read_median_s", m.read.median()},
                                            {"write_median_s", m.write.median()},
                                            {"both_median_s", m.both.median()},
                                            {"update_median_s", m.update.median()},
                                            {"step_best_s", m.step.best()},
                                            {"step_median_s", m.step.median()},
                                            {"ratio_best", m.step.best() / m.best()},
                                            {"ratio_median", m.step.median() / m.median()},
                                            {"ratio_in_turns_best", m.step.best() / m.best_in_turns()},
                                            {"ratio_in_turns_median", m.step.median() / m.median_in_turns()},
                                            {"ratio_both_best", m.step.best() / m.best_of_both()},
                                            {"ratio_both_median", m.step.median() / m.median_of_both()},
                                            {"restless", m.restless()}}
                         .dump(2));
}

void print_table(const OffloadBenchOptions& options, const std::string& tier, const MeasuredStep& m) {
  fmt::print("AdamW with both moments ({} each) on disk ({}), {}, {} ahead, {}, in {}\n",
             format_bytes(options.step.mib << 20), tier, format_count(options.step.threads, "thread"),
             format_count(options.step.depth, "tile"), format_count(options.rounds, "round"),
             fmt::join(options.step.folders, ", "));
  fmt::print("  {:<30}{:>10}{:>12}\n", "", "best ms", "median ms");
  const auto row = [](std::string_view name, const Measurement& m) {
    fmt::print("  {:<30}{:>10.0f}{:>12.0f}\n", name, 1e3 * m.best(), 1e3 * m.median());
  };
  row("read the moments", m.read);
  row("write the moments", m.write);
  row("read and write, both at once", m.both);
  row("update, all in memory", m.update);
  row("step", m.step);
  const auto ratio = [](double best, double median, std::string_view what) {
    fmt::print("  {:<30}{:>10.3f}{:>12.3f}   (1: {})\n", "ratio", best, median, what);
  };
  ratio(m.step.best() / m.best(), m.step.median() / m.median(),
        "the longest of only reading, only writing and only updating");
  ratio(m.step.best() / m.best_in_turns(), m.step.median() / m.median_in_turns(),
        "the longest of reading and then writing, updating");
  ratio(m.step.best() / m.best_of_both(), m.step.median() / m.median_of_both(),
        "the longest of both at once, updating");
  if (m.restless())
    fmt::print("  note: probes differ by {:.0f} %: something else uses the disk, measure again\n",
               100 * std::max(m.read.spread(), m.write.spread()));
}

}  // namespace

int run_bench_offload(Arguments arguments) {
  CLI::App app("Measures an optimizer step with its moments on disk against its parts.", "zero bench offload");
  OffloadBenchOptions options;
  app.add_option("--dir", options.step.folders, "folder on the disk to measure; several: striped")
      ->capture_default_str();
  app.add_option("--mib", options.step.mib, "MiB of each of the two moments")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--depth", options.step.depth, "tiles in flight, for reads and for writes")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--threads", options.step.threads, "number of threads")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--rounds", options.rounds, "measurements of each part")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--device", options.device,
                 "device of weights and gradients: cpu, cuda or cuda:1; also measures copies. Not given: no copies");
  app.add_flag("--json", options.json, "print one JSON object");
  if (!parse_flags(app, arguments)) return 0;
  if (!options.device.empty()) return bench_offload_on_device(options);

  // Four arrays of the resident step, two arrays of the step on disk, and the tiles in transfer.
  require_memory((6 * options.step.mib + 8 * options.step.depth + 128) << 20, "use fewer with --mib");
  MomentStep resident(options.step, Tier::kDevice), step(options.step, Tier::kDisk);
  DiskProbe probe(options.step.folders, options.step.mib << 21, kProbeDepth);
  const MeasuredStep m = measure(options, probe, resident, step);
  options.json ? print_json(options, step.describe_disk(), m) : print_table(options, step.describe_disk(), m);
  return 0;
}

}  // namespace zero::cli
