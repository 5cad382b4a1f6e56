// Workers that are processes and sleep at random. One is stopped (SIGSTOP) while it reads weights or in the middle of a
// push. The servers continue with the other workers. When the stopped worker continues, it is taken back. If a
// staleness limits the other workers (`stale`), the bits equal those of a run without stops. In other modes, a replay
// has the same bits.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zero/base/files/file.h"

#include "tests/serve/served_run.h"
#include "tests/serve/stops_within.h"
#include "tests/support/command_end.h"
#include "tests/support/mpirun.h"
#include "tests/support/temporary_folder.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

// Values that processes share. All bytes are zero at first.
struct StopNotes {
  std::atomic<int> stopped_process;
  std::atomic<std::int64_t> ahead;       // clock of the other workers at the wake-up
  std::atomic<std::int64_t> last_clock;  // latest clock that the worker has begun
};

// Notes in a file, which unrelated processes can open.
class SharedNotes {
 public:
  explicit SharedNotes(const std::string& path) {
    const FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    void* const bytes = ftruncate(file.get(), sizeof(StopNotes)) == 0
                            ? mmap(nullptr, sizeof(StopNotes), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0)
                            : MAP_FAILED;
    if (bytes == MAP_FAILED) throw std::runtime_error("no notes in " + path);
    notes_ = static_cast<StopNotes*>(bytes);
  }
  ~SharedNotes() { munmap(notes_, sizeof(StopNotes)); }
  SharedNotes(const SharedNotes&) = delete;
  SharedNotes& operator=(const SharedNotes&) = delete;
  StopNotes& operator*() const { return *notes_; }

 private:
  StopNotes* notes_;
};

bool is_stopped(int process) {
  std::ifstream stat(fmt::format("/proc/{}/stat", process));
  const std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.size() > name_end + 2 && text[name_end + 2] == 'T';
}

std::vector<ParamSpec> read_in_place() {
  std::vector<ParamSpec> specs;
  for (int i = 0; i < 10; ++i)
    specs.push_back({.name = fmt::format("h.{}.weight", i), .shape = {i % 3 == 0 ? 100 : 5, 64}, .own_unit = true});
  return specs;
}

constexpr std::int64_t kClocks = 24, kUntil = 16;

struct ServedMode {
  std::string name;
  AttachOptions options;
  std::int64_t until;       // clock in which worker 0 wakes the stopped worker
  std::int64_t last_clock;  // the stopped worker must reach this clock
};

const ServedMode kAsyncStops{
    "async", {.sync = {.mode = SyncMode::kAsync, .servers = 2, .staleness = 100}}, kUntil, kClocks - 1};
const ServedMode kQuorumStops{"quorum", {.sync = {.servers = 2, .quorum = 2}}, kUntil, kUntil};

// Worker 2 pushes clock 1 and stops in clock 2. Other workers reach at most that clock plus the staleness.
ServedMode stale_stops(int staleness) {
  return {
      "stale", {.sync = {.mode = SyncMode::kStale, .servers = 2, .staleness = staleness}}, 2 + staleness, kClocks - 1};
}

// Worker 0 passes clock 3 after worker 2 has stopped, and wakes it in clock `until`. It ends after worker 2 was taken
// back. Without `within`, no worker stops. Returns the head's results. `replayed` gives the order of events, if it is
// not empty.
TrainedBits live(Communicator& comm, const ServedMode& mode, std::optional<Within> within, StopNotes& notes,
                 const std::deque<PushEvent>& replayed = {}) {
  const AttachOptions& options = mode.options;
  if (options.sync.is_server(comm.rank())) {
    TrainedBits bits;
    serve(comm, options, read_in_place(), {.clocks = kClocks, .replayed = replayed}, bits);
    return bits;
  }
  if (options.sync.mode != SyncMode::kStale) comm.arrivals()->may_be_lost();
  TrainedClocks run{.clocks = kClocks};
  if (!within) {
    work(comm, options, read_in_place(), run);
    return {};
  }
  StopsWithin stopping(comm, *within, 3, [&] {
    notes.stopped_process = getpid();
    kill(getpid(), SIGSTOP);
  });
  std::minstd_rand random(std::random_device{}());
  run.before = [&](int worker, std::int64_t clock) {
    usleep(std::uniform_int_distribution<useconds_t>(0, 2000)(random));
    if (worker == 2) {
      if (clock >= 2) stopping.arm();
      notes.last_clock = clock;
    }
    if (worker != 0) return;
    const bool woken = notes.ahead > 0;
    while (!woken && clock >= 3 && (notes.stopped_process == 0 || !is_stopped(notes.stopped_process))) usleep(1000);
    while (woken && clock >= kClocks - 1 && notes.last_clock < kUntil) usleep(1000);
    if (woken || clock < mode.until) return;
    notes.ahead = clock;
    kill(notes.stopped_process, SIGCONT);
  };
  work(options.sync.worker_of(comm.rank()) == 2 ? stopping : comm, options, read_in_place(), run);
  return {};
}

World world_of(const ServedMode& mode, const std::string& transport) {
  return {.transport = transport,
          .size = mode.options.sync.servers + 3,
          .timeout = std::chrono::minutes(2),
          .patience = std::chrono::minutes(2)};
}

void expect_gone_on(const StopNotes& notes, const ServedMode& mode) {
  EXPECT_GE(notes.ahead, mode.until) << "the other workers did not wait for it";
  EXPECT_GE(notes.last_clock, mode.last_clock) << "the stopped worker was taken back";
}

struct Recorded {
  std::string weights, losses;  // as bytes
  std::deque<PushEvent> events;
};

template <typename T>
void write(const std::filesystem::path& path, const std::vector<T>& values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(sizeof(T) * values.size()));
}

std::deque<PushEvent> read_events(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  std::deque<PushEvent> events(bytes.size() / sizeof(PushEvent));
  for (std::size_t i = 0; i < events.size(); ++i)
    std::memcpy(&events[i], bytes.data() + i * sizeof(PushEvent), sizeof(PushEvent));
  return events;
}

class ServedStops : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_goes_on(const ServedMode& mode) {
    for (const Within within : {Within::kWeights, Within::kPush}) {
      SCOPED_TRACE(name_of(within));
      const TemporaryFolder folder;
      const SharedNotes notes(folder / "notes");
      expect_world(world_of(mode, GetParam()), [&](Communicator& comm) { live(comm, mode, within, *notes); });
      expect_gone_on(*notes, mode);
    }
  }

  // The head's results, which it writes to files.
  Recorded recorded(const ServedMode& mode, std::optional<Within> within, const std::deque<PushEvent>& replayed = {}) {
    const TemporaryFolder folder;
    const SharedNotes notes(folder / "notes");
    expect_world(world_of(mode, GetParam()), [&](Communicator& comm) {
      const TrainedBits bits = live(comm, mode, within, *notes, replayed);
      if (bits.weights.empty()) return;
      write(folder / "weights", bits.weights);
      write(folder / "losses", bits.losses);
      write(folder / "events", std::vector(bits.events.begin(), bits.events.end()));
    });
    if (within) expect_gone_on(*notes, mode);
    return {read_file(folder / "weights"), read_file(folder / "losses"), read_events(folder / "events")};
  }
};

// Transports of worlds that the tests start, with processes as ranks. With gloo the tests take seconds.
std::vector<std::string> stoppable() {
  if (!launched_transport().empty()) return {};
  std::vector<std::string> names{"shared_memory"};
  for (const std::string& name : transports())
    if (name == "gloo" && in_full_tier()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Transports, ServedStops, ::testing::ValuesIn(stoppable()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ServedStops);

TEST_P(ServedStops, AsynchronousRunContinuesBesideStoppedProcess) {
  expect_goes_on(kAsyncStops);
}

TEST_P(ServedStops, QuorumContinuesBesideStoppedProcess) {
  expect_goes_on(kQuorumStops);
}

// The bits equal those of a run without stops.
TEST_P(ServedStops, StaleRunKeepsUnstoppedBits) {
  for (const int staleness : in_full_tier() ? std::vector{1, 2, 3} : std::vector{2}) {
    const ServedMode mode = stale_stops(staleness);
    const std::string undisturbed = recorded(mode, {}).weights;
    for (const Within within : {Within::kWeights, Within::kPush}) {
      SCOPED_TRACE(fmt::format("staleness {}, {}", staleness, name_of(within)));
      EXPECT_TRUE(recorded(mode, within).weights == undisturbed);
    }
  }
}

// Both modes and both moments in turn. The replay is equal bit for bit.
TEST_P(ServedStops, ReplayMatchesStoppedRun) {
  const int trials = num_trials("ZERO_STOPPED_REPLAYS", 2, 20);
  for (int trial = 0; trial < trials; ++trial) {
    const ServedMode& mode = trial % 2 == 0 ? kAsyncStops : kQuorumStops;
    const Within within = trial / 2 % 2 == 0 ? Within::kWeights : Within::kPush;
    SCOPED_TRACE(fmt::format("trial {}: {}, {}", trial, mode.name, name_of(within)));
    const Recorded stopped = recorded(mode, within);
    const Recorded replayed = recorded(mode, {}, stopped.events);
    EXPECT_FALSE(stopped.events.empty());
    EXPECT_EQ(replayed.events, stopped.events);
    EXPECT_TRUE(replayed.weights == stopped.weights);
    EXPECT_TRUE(replayed.losses == stopped.losses);
  }
}

// ---- over MPI, with ranks that mpirun starts
// --------------------------------------------------------------------------

struct MpiStop {
  const ServedMode& mode;
  Within within;
};

class MpiServedStops : public ::testing::TestWithParam<MpiStop> {};

// All cases in the full tier. Otherwise each mode and each moment once.
std::vector<MpiStop> mpi_stops() {
  std::vector<MpiStop> stops;
  Sweep sweep(3);
  for (const ServedMode* mode : {&kAsyncStops, &kQuorumStops})
    for (const Within within : {Within::kPush, Within::kWeights})
      if (sweep.takes_next()) stops.push_back({*mode, within});
  return stops;
}
INSTANTIATE_TEST_SUITE_P(Each, MpiServedStops, ::testing::ValuesIn(mpi_stops()), [](const auto& info) {
  return info.param.mode.name + (info.param.within == Within::kPush ? "_push" : "_weights");
});

// A rank of MpiServedStops. The variable has the mode, "push" or "weights", and the file of the notes.
TEST(MpiServedStopsRank, LivesBesideAStoppedProcess) {
  const char* const told = std::getenv("ZERO_WORLD_STOPS");
  if (told == nullptr) GTEST_SKIP() << "runs under MpiServedStops";
  std::istringstream words(told);
  std::string mode_name, within, path;
  words >> mode_name >> within >> path;
  const ServedMode& mode = mode_name == kAsyncStops.name ? kAsyncStops : kQuorumStops;
  const SharedNotes notes(path);
  expect_world(world_of(mode, launched_transport()), [&](Communicator& comm) {
    live(comm, mode, within == "push" ? Within::kPush : Within::kWeights, *notes);
  });
}

TEST_P(MpiServedStops, RunContinuesBesideStoppedProcess) {
  if (!launched_transport().empty()) GTEST_SKIP() << "this is a rank";
  const auto statuses = transport_statuses();
  const bool has_plugin = std::ranges::any_of(
      statuses, [](const TransportStatus& status) { return status.name == "mpi" && status.available; });
  if (!has_plugin || std::string(ZERO_MPIRUN).empty()) GTEST_SKIP() << "no plug-in mpi, or no mpirun";
  const auto& [mode, within] = GetParam();
  const TemporaryFolder folder;
  const SharedNotes notes(folder / "notes");
  const CommandEnd end = end_of_command(
      fmt::format("ZERO_WORLD_TRANSPORT=mpi ZERO_WORLD_STOPS='{} {} {}' timeout 300 {} '{}' --gtest_color=no "
                  "'--gtest_filter=MpiServedStopsRank.*' 2>&1",
                  mode.name, within == Within::kPush ? "push" : "weights", (folder / "notes").string(),
                  mpirun_ranks(world_of(mode, "mpi").size), std::filesystem::read_symlink("/proc/self/exe").string()));
  EXPECT_EQ(end.status, 0) << end.text;
  expect_gone_on(*notes, mode);
}

}  // namespace
}  // namespace zero
