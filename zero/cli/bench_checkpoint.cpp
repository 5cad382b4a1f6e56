// `zero bench checkpoint`: a rank's file, written as a save does (reserved, past the page cache, with sums, synced) and
// read as a load does (every byte compared), against a plain io_uring loop over new files, in turns.
#include <array>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "zero/base/bytes.h"
#include "zero/base/file.h"
#include "zero/checkpoint/block_file.h"
#include "zero/cli/bench.h"
#include "zero/cli/disk_probe.h"
#include "zero/cli/flags.h"
#include "zero/cli/measurement.h"
#include "zero/memory/host_memory.h"
#include "zero/memory/scratch_file.h"

namespace zero::cli {
namespace {

constexpr double kRestless = 0.15;
constexpr int kDepth = 32;

struct Side {
  std::string name;
  Measurement probe{}, ours{};
  double best() const { return probe.best() / ours.best(); }
  double median() const { return probe.median() / ours.median(); }
};

// Gone when the benchmark ends, however it ends.
struct Removed {
  std::filesystem::path path;
  ~Removed() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

BlockSums save(const std::filesystem::path& path, std::int64_t bytes, std::span<const std::byte> memory) {
  BlockFileWriter writer(path.string(), bytes);
  for (std::int64_t done = 0; done < bytes; done += std::ssize(memory))
    writer.append(memory.first(static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(memory), bytes - done))));
  return writer.finish();
}

void load(const std::filesystem::path& path, const BlockSums& content) {
  const SourceFolder folder(path.parent_path());
  BlockFileReader reader(folder, path.filename().string(), content);
  for (std::int64_t i = 0; i < reader.num_blocks(); ++i) (void)reader.read_block(i);
}

// What the page cache has of it.
void forget(const std::filesystem::path& path) {
  const FileDescriptor file = FileDescriptor::open(path, O_RDONLY);
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

void print_table(const std::array<Side, 2>& sides, std::int64_t bytes, int rounds) {
  fmt::print("a checkpoint's file of {}, {} rounds\n  {:<6}{:>14}{:>14}{:>14}{:>14}{:>9}{:>9}\n", format_bytes(bytes),
             rounds, "", "probe best", "median", "ours best", "median", "ratio", "median");
  const auto rate = [&](double seconds) { return static_cast<double>(bytes) / 1e6 / seconds; };
  for (const Side& side : sides)
    fmt::print("  {:<6}{:>9.0f} MB/s{:>9.0f} MB/s{:>9.0f} MB/s{:>9.0f} MB/s{:>9.3f}{:>9.3f}\n", side.name,
               rate(side.probe.best()), rate(side.probe.median()), rate(side.ours.best()), rate(side.ours.median()),
               side.best(), side.median());
  for (const Side& side : sides) {
    if (side.probe.spread() > kRestless)
      fmt::print("  note: the probe's {}s differ by {:.0f} %: something else uses the disk, measure again\n", side.name,
                 100 * side.probe.spread());
  }
}

}  // namespace

int run_bench_checkpoint(Arguments arguments) {
  CLI::App app("Measures saving and loading a rank's part of a checkpoint against a plain io_uring loop.",
               "zero bench checkpoint");
  std::string folder = ".";
  std::int64_t mib = 512;
  int rounds = 5;
  bool json = false;
  app.add_option("--dir", folder, "folder on the disk to measure")->capture_default_str();
  app.add_option("--mib", mib, "MiB of the file; twice as many lie on the disk")
      ->capture_default_str()
      ->check(CLI::Range(8, 1 << 24));
  app.add_option("--rounds", rounds, "times each is measured")->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_flag("--json", json, "as one JSON object");
  if (!parse_flags(app, arguments)) return 0;

  const std::int64_t bytes = mib << 20;
  require_room(std::array{ScratchSize{folder, 2 * bytes}});
  require_memory(256 << 20, "end other programs");
  const Allocation memory = allocate_host(std::size_t{64} << 20);
  fill_randomly(memory.bytes());
  const Removed file{std::filesystem::path(folder) / fmt::format("zero-bench-checkpoint-{}", ::getpid())};
  std::array<Side, 2> sides{Side{"save"}, Side{"load"}};
  auto& [saves, loads] = sides;
  for (int round = 0; round < rounds; ++round) {
    BlockSums content;
    std::optional<DiskProbe> probe;
    const auto one = [&] {
      saves.probe.time([&] {
        probe.emplace(std::vector{folder}, bytes, kDepth);
        probe->write();
      });
    };
    const auto other = [&] { saves.ours.time([&] { content = save(file.path, bytes, memory.bytes()); }); };
    std::error_code ignored;
    std::filesystem::remove(file.path, ignored);
    round % 2 == 0 ? (one(), other()) : (other(), one());
    forget(file.path);
    const auto probe_read = [&] { loads.probe.time([&] { probe->read(); }); };
    const auto our_load = [&] { loads.ours.time([&] { load(file.path, content); }); };
    round % 2 == 0 ? (probe_read(), our_load()) : (our_load(), probe_read());
  }
  if (!json) {
    print_table(sides, bytes, rounds);
    return 0;
  }
  nlohmann::ordered_json out{{"bench", "checkpoint"}, {"dir", folder}, {"bytes", bytes}, {"rounds", rounds}};
  for (const Side& side : sides)
    out[side.name] = {{"probe_best_s", side.probe.best()},
                      {"probe_median_s", side.probe.median()},
                      {"best_s", side.ours.best()},
                      {"median_s", side.ours.median()},
                      {"ratio_best", side.best()},
                      {"ratio_median", side.median()},
                      {"restless", side.probe.spread() > kRestless}};
  fmt::print("{}\n", out.dump(2));
  return 0;
}

}  // namespace zero::cli
