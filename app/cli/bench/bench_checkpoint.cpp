// `zero bench checkpoint`: saving and loading an engine's states of several ranks, against a plain io_uring loop. Both
// do the same work as `zero train`. A save writes shards without the page cache, makes checksums, syncs, writes the
// manifest and renames once. A load compares every byte with its checksum, and copies it into the state. The io_uring
// loop moves as many bytes of a new file. Loop and save (or load) run in turns. The benchmark also measures how long an
// asynchronous save stops the ranks. Ranks are threads.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/files/random_bytes.h"
#include "zero/base/process/clock.h"
#include "zero/base/text/bytes.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/checkpoint/load.h"
#include "zero/checkpoint/read/checkpoint_reader.h"
#include "zero/checkpoint/save.h"
#include "zero/comm/board/in_process.h"
#include "zero/memory/account/host_memory.h"
#include "zero/memory/io/scratch_file.h"

#include "app/cli/bench/bench.h"
#include "app/cli/bench/measurement.h"
#include "app/cli/bench/parts/disk_probe.h"
#include "app/cli/command/flags.h"
#include "app/launch/ranks/signal_inbox.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kDepth = 32;

constexpr std::int64_t kUnitBytes = std::int64_t{32} << 20;  // of one state; less if the checkpoint is smaller

struct SaveBenchOptions {
  std::string folder = ".";
  std::int64_t mib = 512;
  int ranks = 2;
  int rounds = 5;
  bool json = false;
  std::int64_t bytes() const { return mib << 20; }
  // Returns the timeout of a wait for the rank that probes: long enough for a disk of 10 MB/s.
  std::chrono::seconds timeout() const { return std::chrono::seconds(600 + mib / 10); }
};

struct Side {
  std::string name;
  Measurement probe{}, ours{};
  double best() const { return probe.best() / ours.best(); }
  double median() const { return probe.median() / ours.median(); }
};

struct MeasuredSave {
  std::array<Side, 2> sides{Side{"save"}, Side{"load"}};
  Measurement stall;  // of an asynchronous save
  std::int64_t bytes = 0;
};

// Ends the benchmark after a signal, so its folder is removed.
class StopSignal {
 public:
  int number() const { return number_; }  // 0: none
  // Throws CommError after a signal.
  void check() {
    if (number_ == 0) number_ = inbox_.take();
    if (number_ != 0) throw CommError(0, "benchmark", fmt::format("stopped by signal {}", number_));
  }

 private:
  SignalInbox inbox_;
  int number_ = 0;
};

// A folder that is removed when the benchmark ends, even with an exception.
struct Removed {
  fs::path path;
  ~Removed() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

// A model without computation: matrices of random numbers, and their moments.
class States final : public UnitObserver {
 public:
  States(Communicator& comm, std::int64_t checkpoint_bytes)
      : specs_(specs(checkpoint_bytes)), engine_(comm, specs_, make_units(specs_, {}), {.stage = 3}, *this) {
    const Allocation some = allocate_host(std::size_t{1} << 20);
    std::mt19937_64 draw(random_number());
    std::uniform_real_distribution<float> value(-1, 1);
    const std::span<float> values(reinterpret_cast<float*>(some.data()), some.bytes().size() / sizeof(float));
    std::ranges::generate(values, [&] { return value(draw); });
    for (const Unit& unit : engine_.units()) {
      for (int state = 0; state < engine_.states().contents().num_saved_states(unit.index); ++state)
        engine_.states().write_held(unit.index, state, [&](std::int64_t, std::span<float> out) {
          for (; !out.empty(); out = out.subspan(std::min(out.size(), values.size())))
            std::ranges::copy(values.first(std::min(out.size(), values.size())), out.begin());
        });
    }
  }
  void bind(int, std::byte*) override {}
  RankEngine& engine() { return engine_; }

 private:
  static std::vector<ParamSpec> specs(std::int64_t checkpoint_bytes) {
    constexpr std::int64_t kStates = 3;
    const std::int64_t bytes = checkpoint_bytes / kStates, units = (bytes + kUnitBytes - 1) / kUnitBytes;
    std::vector<ParamSpec> specs;
    for (std::int64_t i = 0; i < units; ++i)
      specs.push_back(
          {.name = fmt::format("h.{}.weight", i), .shape = {bytes / units / 1024 / 4, 1024}, .own_unit = true});
    return specs;
  }

  std::vector<ParamSpec> specs_;
  RankEngine engine_;
};

// Drops the folder's files from the page cache.
void forget(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const FileDescriptor file = FileDescriptor::open(entry.path(), O_RDONLY);
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

// One rank's part of the benchmark. Rank 0 probes and measures while the other ranks wait.
class Rank {
 public:
  Rank(Communicator& comm, const SaveBenchOptions& options, const fs::path& path, MeasuredSave& measured,
       StopSignal& stop)
      : comm_(comm), options_(options), path_(path), measured_(measured), stop_(stop), states_(comm, options.bytes()) {}

  void run() {
    for (int round = 0; round < options_.rounds; ++round) {
      alone([&] { fs::remove_all(path_); });
      in_turns(
          round, [&] { probe_write(); }, [&] { save(); });
      save_beside();
      alone([&] {
        measured_.bytes = read_manifest(path_).size_bytes();
        forget(path_);
      });
      in_turns(
          round, [&] { alone([&] { loads().probe.time([&] { probe_->read(); }); }); }, [&] { load(); });
      alone([&] { probe_.reset(); });
    }
  }

 private:
  Side& saves() { return measured_.sides[0]; }
  Side& loads() { return measured_.sides[1]; }

  template <typename One, typename Other>
  static void in_turns(int round, One one, Other other) {
    if (round % 2 == 0) one();
    other();
    if (round % 2 != 0) one();
  }
  // Runs `body` on rank 0 while the other ranks wait.
  template <typename Body>
  void alone(Body body) {
    require_same_outcome(comm_, path_.string(), [&] {
      if (comm_.rank() != 0) return;
      stop_.check();
      body();
    });
  }
  // Runs `body` on all ranks. Returns the seconds from the first begin to the last end, as rank 0 measures them.
  template <typename Body>
  double together(Body body) {
    comm_.barrier({.control = true}).wait();
    const double begin = monotonic_seconds();
    body();
    comm_.barrier({.control = true}).wait();
    return monotonic_seconds() - begin;
  }

  void probe_write() {
    alone([&] {
      Allocation stripes = DiskProbe::random_stripes(kDepth);  // not timed: the loop only moves bytes
      saves().probe.time([&] {
        probe_.emplace(std::vector{options_.folder}, options_.bytes(), std::move(stripes));
        probe_->write();
      });
    });
  }
  void save() {
    const double seconds = together([&] { CheckpointSave(states_.engine(), path_, {}, SaveMode::kSync).wait(); });
    if (comm_.rank() == 0) saves().ours.add(seconds);
  }
  // Saves the same states asynchronously. All rounds use the image memory of the first save.
  void save_beside() {
    CheckpointSave save(states_.engine(), path_, {}, SaveMode::kAsync, FileCalls::kernel(), &images_);
    save.wait();
    if (comm_.rank() == 0 && save.copied()) measured_.stall.add(save.stalled_seconds());
  }
  void load() {
    const double seconds = together([&] { (void)load_checkpoint(states_.engine(), path_); });
    if (comm_.rank() == 0) loads().ours.add(seconds);
  }

  Communicator& comm_;
  const SaveBenchOptions& options_;
  const fs::path& path_;
  MeasuredSave& measured_;
  StopSignal& stop_;  // used by rank 0
  States states_;
  ImageMemory images_{states_.engine().resources()};
  std::optional<DiskProbe> probe_;
};

// Throws the first failure that is not a CommError, because a CommError only says that another rank failed.
void rethrow_first(std::vector<std::exception_ptr> failures) {
  std::erase(failures, nullptr);
  for (const std::exception_ptr& failure : failures) {
    try {
      std::rethrow_exception(failure);
    } catch (const CommError&) {
      continue;
    }
  }
  if (!failures.empty()) std::rethrow_exception(failures.front());
}

MeasuredSave measure(const SaveBenchOptions& options, const fs::path& path, StopSignal& stop) {
  MeasuredSave measured;
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(options.ranks));
  auto comms = make_in_process(options.ranks, options.timeout());
  std::vector<std::thread> threads;
  for (auto& comm : comms)
    threads.emplace_back([&, comm = std::move(comm)]() mutable {
      try {
        Rank(*comm, options, path, measured, stop).run();
      } catch (...) {
        failures[static_cast<std::size_t>(comm->rank())] = std::current_exception();
      }
      comm.reset();  // so ranks that wait for this rank get an error
    });
  for (std::thread& thread : threads) thread.join();
  rethrow_first(failures);
  return measured;
}

void print_table(const SaveBenchOptions& options, const MeasuredSave& measured) {
  fmt::print("a checkpoint of {} by {}, {}\n  {:<6}{:>14}{:>14}{:>14}{:>14}{:>9}{:>9}\n", format_bytes(measured.bytes),
             format_count(options.ranks, "rank"), format_count(options.rounds, "round"), "", "probe best", "median",
             "ours best", "median", "ratio", "median");
  const auto rate = [&](double seconds) { return static_cast<double>(measured.bytes) / 1e6 / seconds; };
  for (const Side& side : measured.sides)
    fmt::print("  {:<6}{:>9.0f} MB/s{:>9.0f} MB/s{:>9.0f} MB/s{:>9.0f} MB/s{:>9.3f}{:>9.3f}\n", side.name,
               rate(side.probe.best()), rate(side.probe.median()), rate(side.ours.best()), rate(side.ours.median()),
               side.best(), side.median());
  if (measured.stall.count() > 0)
    fmt::print("  an asynchronous save stops the ranks for {:.0f} ms (median {:.0f})\n", 1e3 * measured.stall.best(),
               1e3 * measured.stall.median());
  else
    fmt::print("  there is no memory for an asynchronous save's copy\n");
  for (const Side& side : measured.sides) {
    if (side.probe.spread() > kRestless)
      fmt::print("  note: the probe's {}s differ by {:.0f} %: something else uses the disk, measure again\n", side.name,
                 100 * side.probe.spread());
  }
}

void print_json(const SaveBenchOptions& options, const MeasuredSave& measured) {
  nlohmann::ordered_json out{{"bench", "checkpoint"},
                             {"dir", options.folder},
                             {"bytes", measured.bytes},
                             {"ranks", options.ranks},
                             {"rounds", options.rounds}};
  for (const Side& side : measured.sides)
    out[side.name] = {{"probe_best_s", side.probe.best()},
                      {"probe_median_s", side.probe.median()},
                      {"best_s", side.ours.best()},
                      {"median_s", side.ours.median()},
                      {"ratio_best", side.best()},
                      {"ratio_median", side.median()},
                      {"restless", side.probe.spread() > kRestless}};
  if (measured.stall.count() > 0)
    out["stall"] = {{"best_s", measured.stall.best()}, {"median_s", measured.stall.median()}};
  fmt::print("{}\n", out.dump(2));
}

}  // namespace

int run_bench_checkpoint(Arguments arguments) {
  CLI::App app("Measures saving and loading a checkpoint of several ranks against a plain io_uring loop.",
               "zero bench checkpoint");
  SaveBenchOptions options;
  app.add_option("--dir", options.folder, "folder on the disk to measure")->capture_default_str();
  app.add_option("--mib", options.mib, "MiB of the checkpoint; the disk needs three times as much")
      ->capture_default_str()
      ->check(CLI::Range(8, 1 << 24));
  app.add_option("--ranks", options.ranks, "number of ranks that save and load, each a thread")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--rounds", options.rounds, "measurements of each part")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_flag("--json", options.json, "print one JSON object");
  if (!parse_flags(app, arguments)) return 0;

  // Room for the checkpoint, its successor and the probe's file.
  require_room(std::array{ScratchSize{options.folder, 3 * options.bytes()}});
  // Memory for states and gradients, for the copy that an asynchronous save makes, and for blocks in transfer.
  require_memory(options.bytes() / 3 * 7 + (std::int64_t{96} << 20) * options.ranks, "take a smaller --mib");
  const Removed folder{fs::path(options.folder) / fmt::format("zero-bench-checkpoint-{}", ::getpid())};
  StopSignal stop;
  MeasuredSave measured;
  try {
    measured = measure(options, folder.path / "checkpoint", stop);
  } catch (const Error&) {
    if (stop.number() == 0) throw;
    return 128 + stop.number();
  }
  options.json ? print_json(options, measured) : print_table(options, measured);
  return 0;
}

}  // namespace zero::cli
