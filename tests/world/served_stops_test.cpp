// Workers that are processes and are stopped (SIGSTOP) while they read weights or in the middle of a push: servers go on with
// the others, and when such a worker goes on, it is taken back.
#include <atomic>
#include <fstream>
#include <new>
#include <string>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "suite.h"
#include "tests/serve/served_run.h"
#include "tests/serve/stops_within.h"

namespace zero {
namespace {

// What processes tell each other.
struct StopNotes {
  std::atomic<int> stopped_process{0};
  std::atomic<std::int64_t> ahead{-1};       // of the others, when it was woken
  std::atomic<std::int64_t> last_clock{-1};  // that it has computed
};

class SharedNotes {
 public:
  SharedNotes()
      : notes_(new (mmap(nullptr, sizeof(StopNotes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                   StopNotes) {}
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

// Worker 0 goes beyond clock 3 when worker 2 has been stopped, wakes it in clock kUntil, and ends when it was taken back.
void live(Communicator& comm, const EngineOptions& options, Within within, StopNotes& notes) {
  if (options.sync.is_server(comm.rank())) {
    TrainedBits bits;
    return serve(comm, options, read_in_place(), {.clocks = kClocks}, bits);
  }
  comm.arrivals()->may_be_lost();
  TrainedClocks run{.clocks = kClocks};
  StopsWithin stopping(comm, within, 3, [&] {
    notes.stopped_process = getpid();
    kill(getpid(), SIGSTOP);
  });
  run.before = [&](int worker, std::int64_t clock) {
    if (worker == 2) {
      if (clock >= 2) stopping.arm();
      notes.last_clock = clock;
    }
    if (worker != 0) return;
    const bool woken = notes.ahead >= 0;
    while (!woken && clock >= 3 && (notes.stopped_process == 0 || !is_stopped(notes.stopped_process))) usleep(1000);
    while (woken && clock >= kClocks - 1 && notes.last_clock < kUntil) usleep(1000);
    if (woken || clock < kUntil) return;
    notes.ahead = clock;
    kill(notes.stopped_process, SIGCONT);
  };
  work(options.sync.worker_of(comm.rank()) == 2 ? stopping : comm, options, read_in_place(), run);
}

class ServedStops : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_goes_on(const EngineOptions& options, std::int64_t last_clock) {
    for (const Within within : {Within::kWeights, Within::kPush}) {
      SCOPED_TRACE(name_of(within));
      const SharedNotes notes;
      expect_world({.transport = GetParam(),
                    .size = options.sync.servers + 3,
                    .timeout = std::chrono::minutes(2),
                    .patience = std::chrono::minutes(2)},
                   [&](Communicator& comm) { live(comm, options, within, *notes); });
      EXPECT_GE((*notes).ahead, kUntil) << "the others did not wait for it";
      EXPECT_GE((*notes).last_clock, last_clock) << "it was taken back";
    }
  }
};

// Started here, and of processes. Over gloo it takes seconds.
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

TEST_P(ServedStops, AnAsynchronousRunGoesOnBesideAStoppedProcess) {
  expect_goes_on({.sync = {.mode = SyncMode::kAsync, .servers = 2, .staleness = 100}}, kClocks - 1);
}

TEST_P(ServedStops, AQuorumGoesOnBesideAStoppedProcess) {
  expect_goes_on({.sync = {.servers = 2, .quorum = 2}}, kUntil);
}

}  // namespace
}  // namespace zero
