// `zero bench disk`: DiskTier's streams of writes and reads, against a plain io_uring loop (disk_probe.h). The loop
// uses files in the same folders, the same stripes, and as many requests in flight. Tier and loop run in turns.
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "zero/base/text/bytes.h"
#include "zero/memory/account/host_memory.h"
#include "zero/memory/disk/disk_tier.h"

#include "app/cli/bench/bench.h"
#include "app/cli/bench/measurement.h"
#include "app/cli/bench/parts/disk_probe.h"
#include "app/cli/command/flags.h"

namespace zero::cli {
namespace {

constexpr std::int64_t kBlock = 8 << 20;  // bytes of one Transfer

struct DiskBenchOptions {
  std::vector<std::string> folders{"."};
  std::int64_t mib = 512;
  int rounds = 5;
  int depth = 32;
  std::string engine = "auto";
  bool checksums = false;
  bool json = false;
};

DiskEngine engine_of(const std::string& name) {
  if (name == "io_uring") return DiskEngine::kUring;
  return name == "threads" ? DiskEngine::kThreads : DiskEngine::kAuto;
}

// A tier, with enough blocks to keep its queue full while the caller waits for one block.
class Stream {
 public:
  Stream(const DiskBenchOptions& options, std::int64_t bytes)
      : tier_({.paths = options.folders,
               .bytes = bytes,
               .engine = engine_of(options.engine),
               .queue_depth = options.depth,
               .checksums = options.checksums}),
        place_(tier_.reserve(bytes)),
        bytes_(bytes),
        num_blocks_(static_cast<std::size_t>(options.depth) * DiskTier::kStripeBytes / kBlock + 2),
        memory_(allocate_host(num_blocks_ * kBlock)) {
    fill_randomly(memory_.bytes());
    tier_.register_memory(memory_.bytes());
  }

  void write() {
    move([&](std::int64_t place, std::span<std::byte> block) { return tier_.write(place, block); });
  }
  void read() {
    move([&](std::int64_t place, std::span<std::byte> block) { return tier_.read(place, block); });
  }
  std::string describe() const { return tier_.describe(); }

 private:
  template <typename Begin>
  void move(Begin begin) {
    std::vector<Transfer> moving(num_blocks_);
    std::size_t slot = 0;
    for (std::int64_t at = 0; at < bytes_; at += kBlock, slot = (slot + 1) % num_blocks_) {
      moving[slot].wait();
      moving[slot] = begin(place_ + at, memory_.bytes().subspan(slot * kBlock, kBlock));
    }
    for (Transfer& transfer : moving) transfer.wait();
  }

  DiskTier tier_;
  std::int64_t place_;
  std::int64_t bytes_;
  std::size_t num_blocks_;
  Allocation memory_;
};

struct Direction {
  std::string name;
  Measurement probe{}, tier{};
  double ratio_best() const { return probe.best() / tier.best(); }
  double ratio_median() const { return probe.median() / tier.median(); }
};

std::array<Direction, 2> measure(const DiskBenchOptions& options, DiskProbe& probe, Stream& stream) {
  std::array<Direction, 2> out{Direction{"write"}, Direction{"read"}};
  Direction &writes = out[0], &reads = out[1];
  // The first write to a preallocated file is not measured, because it also marks blocks as written.
  probe.write();
  stream.write();
  for (int round = 0; round < options.rounds; ++round) {
    const auto in_turn = [&](auto&& one, auto&& other) { round % 2 == 0 ? (one(), other()) : (other(), one()); };
    in_turn([&] { writes.probe.time([&] { probe.write(); }); }, [&] { writes.tier.time([&] { stream.write(); }); });
    in_turn([&] { reads.probe.time([&] { probe.read(); }); }, [&] { reads.tier.time([&] { stream.read(); }); });
  }
  return out;
}

struct Tried {
  std::string probe, tier;
  std::int64_t bytes;
};

void print_json(const DiskBenchOptions& options, const Tried& tried, std::span<const Direction> directions) {
  nlohmann::ordered_json out{{"bench", "disk"},
                             {"probe", tried.probe},
                             {"tier", tried.tier},
                             {"dirs", options.folders},
                             {"bytes", tried.bytes},
                             {"depth", options.depth},
                             {"checksums", options.checksums},
                             {"rounds", options.rounds}};
  for (const auto& each : directions) {
    out[each.name] = {{"probe_best_s", each.probe.best()},   {"probe_median_s", each.probe.median()},
                      {"tier_best_s", each.tier.best()},     {"tier_median_s", each.tier.median()},
                      {"ratio_best", each.ratio_best()},     {"ratio_median", each.ratio_median()},
                      {"probe_spread", each.probe.spread()}, {"restless", each.probe.spread() > kRestless}};
  }
  fmt::print("{}\n", out.dump(2));
}

void print_table(const DiskBenchOptions& options, const Tried& tried, std::span<const Direction> directions) {
  fmt::print("DiskTier ({}), {} in stripes of 1 MiB, {} in flight, {} rounds, in {}\n", tried.tier,
             format_bytes(tried.bytes), options.depth, options.rounds, fmt::join(options.folders, ", "));
  fmt::print("  {:<8}{:>14}{:>14}{:>14}{:>14}{:>10}{:>10}\n", "", "probe best", "median", "tier best", "median",
             "ratio", "median");
  const auto rate = [&](double seconds) { return static_cast<double>(tried.bytes) / 1e6 / seconds; };
  for (const auto& each : directions)
    fmt::print("  {:<8}{:>9.0f} MB/s{:>9.0f} MB/s{:>9.0f} MB/s{:>9.0f} MB/s{:>10.3f}{:>10.3f}\n", each.name,
               rate(each.probe.best()), rate(each.probe.median()), rate(each.tier.best()), rate(each.tier.median()),
               each.ratio_best(), each.ratio_median());
  fmt::print("  (1 is the speed of a plain loop over files in the same folders, in turns; here over {})\n",
             tried.probe);
  for (const auto& each : directions) {
    if (each.probe.spread() > kRestless)
      fmt::print("  note: the probe's {}s differ by {:.0f} %: something else uses the disk, measure again\n", each.name,
                 100 * each.probe.spread());
  }
}

}  // namespace

int run_bench_disk(Arguments arguments) {
  CLI::App app("Measures DiskTier's streams against a plain io_uring loop.", "zero bench disk");
  DiskBenchOptions options;
  app.add_option("--dir", options.folders, "folder on the disk to measure; several: striped")->capture_default_str();
  app.add_option("--mib", options.mib, "MiB to write and to read, rounded up to 8; the disk needs twice as much")
      ->capture_default_str()
      ->check(CLI::Range(8, 1 << 24));
  app.add_option("--depth", options.depth, "requests in flight")->capture_default_str()->check(CLI::Range(1, 1024));
  app.add_option("--engine", options.engine, "engine of requests: auto, io_uring or threads")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "io_uring", "threads"}));
  app.add_flag("--checksums", options.checksums, "use checksums of all pages");
  app.add_option("--rounds", options.rounds, "measurements of each part")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_flag("--json", options.json, "print one JSON object");
  if (!parse_flags(app, arguments)) return 0;

  const std::int64_t bytes = (options.mib + 7) / 8 * kBlock;
  require_memory((3 * options.depth + 32) * DiskTier::kStripeBytes, "use fewer with --depth");
  Stream stream(options, bytes);
  DiskProbe probe(options.folders, bytes, options.depth);
  const auto directions = measure(options, probe, stream);
  const Tried tried{.probe = probe.name(), .tier = stream.describe(), .bytes = bytes};
  options.json ? print_json(options, tried, directions) : print_table(options, tried, directions);
  return 0;
}

}  // namespace zero::cli
