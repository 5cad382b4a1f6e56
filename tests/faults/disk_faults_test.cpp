// `zero train` whose saves fail while it trains: on a full disk, and on a disk that fails (strace). Only root can mount
// the full disk. The run continues or ends, as `checkpoint.on_error` says. Earlier checkpoints are whole. Once the disk
// works again, a later save succeeds.
#include <csignal>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>

#include "tests/faults/failing_calls.h"
#include "tests/faults/train_fault_test.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// There are enough steps that the disk is full and works again long before the last step.
const int kSteps = in_full_tier() ? 500 : 250;
const std::string kNotSaved = "is not saved: ";

// A file system in memory, which this process and its children can see.
class SmallDisk {
 public:
  explicit SmallDisk(fs::path where) : where_(std::move(where)) {
    fs::create_directory(where_);
    mounted_ = unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               mount("tmpfs", where_.c_str(), "tmpfs", 0, "size=8m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(where_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  void fill() const {
    const std::string page(4096, 'x');
    std::ofstream file(where_ / "ballast", std::ios::app | std::ios::binary);
    while (file.write(page.data(), std::ssize(page)).flush()) continue;
  }
  void empty() const { fs::remove(where_ / "ballast"); }

 private:
  fs::path where_;
  bool mounted_ = false;
};

class DiskFaults : public TrainFaultTest {
 protected:
  std::vector<std::string> two_ranks(const std::string& run, const std::string& on_error = "continue") const {
    return train(run, {"-n", "2"},
                 {{"data.validation", "0"},
                  {"train.steps", std::to_string(kSteps)},
                  {"train.log_every", "25"},
                  {"train.eval_every", "0"},
                  {"checkpoint.every", "50"},
                  {"checkpoint.on_error", on_error},
                  {"run.threads", "1"}});
  }

  std::string weights_of(const std::string& run) const { return report_of(run).value("parameters_sha256", "none"); }
  // The weights of an undisturbed run, computed once for all tests.
  std::string undisturbed_weights() const {
    static const std::string weights = [this] {
      WatchedCommand command(two_ranks("undisturbed"));
      EXPECT_EQ(command.finish(), 0) << command.text();
      return weights_of("undisturbed");
    }();
    return weights;
  }

  // The step of the last acknowledged save before `before` in the text, or 0 if there is none.
  static int last_saved(const WatchedCommand& command, std::size_t before) {
    const std::string words = "checkpoint: step ";
    const std::size_t at = command.text().rfind(words, before);
    return at == std::string::npos ? 0 : std::atoi(command.text().c_str() + at + words.size());
  }

  // Expects that all checkpoints of a run are whole, and that one has that step.
  void expect_whole(const std::string& run, int step) const {
    WatchedCommand inspect({built::kCommand, "inspect", "--verify", folder_ / run});
    EXPECT_EQ(inspect.finish(), 0) << inspect.text();
    EXPECT_SAYS(inspect, fmt::format("step-{:08}: step {}, ", step, step));
    EXPECT_EQ(inspect.text().find("damaged"), std::string::npos) << inspect.text();
  }

  void expect_said(const WatchedCommand& command, const std::string& run, const std::string& reason) const {
    EXPECT_SAYS(command, (folder_ / run).string());
    EXPECT_SAYS(command, reason);
  }

  // Stops the ranks, so their last save is still ahead. Returns false if they have passed it, or almost.
  static bool stop_before_the_last_save(WatchedCommand& command) {
    signal_ranks(command, SIGSTOP);
    command.read_until(Clock::now() + milliseconds(20));
    return command.text().find(fmt::format("\nstep {}/", kSteps - 25)) == std::string::npos;
  }

  void expect_goes_on_and_saves(WatchedCommand& command, const std::string& run, std::size_t from) const {
    EXPECT_TRUE(command.wait_for("\ncheckpoint: step ", from)) << command.text();
    EXPECT_EQ(command.finish(), 0) << command.text();
    EXPECT_EQ(last_saved(command, std::string::npos), kSteps);
    expect_whole(run, kSteps);
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / run))
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
    std::ifstream metrics(folder_ / run / "metrics.jsonl");
    int lines = 0;
    for (std::string line; std::getline(metrics, line);) {
      const auto parsed = nlohmann::json::parse(line, nullptr, false);
      ASSERT_TRUE(parsed.is_object()) << "line " << lines + 1 << ": " << line;
      if (parsed.contains("event")) continue;  // a checkpoint
      EXPECT_EQ(parsed.value("step", 0), ++lines);
    }
    EXPECT_EQ(lines, kSteps) << "every step has its line";
  }

  void expect_same_command_ends_it(const std::string& run, int saved) const {
    WatchedCommand again(two_ranks(run, "stop"));
    EXPECT_EQ(again.finish(), 0) << again.text();
    EXPECT_SAYS(again, fmt::format("continuing after step {} of", saved));
  }
};

// Fills the disk while the ranks are stopped, because a slow disk may take longer than the rest of the training.
void fill_under(const WatchedCommand& command, const SmallDisk& disk) {
  const std::vector<WatchedProcess> processes = command.living();
  for (const WatchedProcess& process : processes)
    if (process.rank >= 0) kill(process.pid, SIGSTOP);
  disk.fill();
  for (const WatchedProcess& process : processes)
    if (process.rank >= 0) kill(process.pid, SIGCONT);
}

// A run without checkpoints reserves the space for its weights when it begins.
TEST_F(DiskFaults, FullDiskKeepsFinalWeights) {
  const SmallDisk disk(folder_ / "disk");
  if (!disk.mounted()) GTEST_SKIP() << "only root can mount a small disk";
  const std::vector<std::string> words = train("disk/run", {"-n", "2"},
                                               {{"data.validation", "0"},
                                                {"train.steps", "20"},
                                                {"train.ema", "0.9"},
                                                {"checkpoint.every", "0"},
                                                {"run.threads", "1"}});
  const auto full = struck("disk/run", words, [&](WatchedCommand& started) {
    disk.empty();
    if (!started.wait_for("step 1/20")) return false;
    fill_under(started, disk);
    return started.finish() != 0;
  });
  WatchedCommand& command = *full;
  EXPECT_EQ(command.finish(), 4) << "files beside the weights could not be written";
  EXPECT_SAYS(command, "training is over, all 20 steps; its weights are in ");
  EXPECT_SAYS(command, "No space left on device");
  EXPECT_EQ(command.text().find("train.ema"), std::string::npos) << "space for the average was also reserved";
  disk.empty();
  for (const char* file : {"model.safetensors", "model_ema.safetensors"}) {
    WatchedCommand next(train(fmt::format("next-{}", file), {},
                              {{"train.steps", "1"}, {"schedule.warmup", "0"}, {"data.validation", "0"}},
                              {"--model.init", folder_ / "disk/run" / file}));
    EXPECT_EQ(next.finish(), 0) << next.text();
  }
}

// Training continues, and saves when the disk has room.
TEST_F(DiskFaults, FullDiskDelaysSaves) {
  const std::string expected = undisturbed_weights();
  const SmallDisk disk(folder_ / "disk");
  if (!disk.mounted()) GTEST_SKIP() << "only root can mount a small disk";
  const auto fills = [&](WatchedCommand& started) {
    disk.empty();
    if (!started.wait_for("checkpoint: step 50,")) return false;
    while (started.text().find(kNotSaved) == std::string::npos) {
      fill_under(started, disk);  // repeatedly, because an old checkpoint may have been removed
      started.read_until(Clock::now() + milliseconds(20));
      if (started.living().empty()) return false;
    }
    return stop_before_the_last_save(started);
  };
  const auto full = struck("disk/run", two_ranks("disk/run"), fills);
  WatchedCommand& command = *full;
  expect_said(command, "disk/run/checkpoints/step-", "No space left on device");
  expect_whole("disk/run", last_saved(command, command.text().find(kNotSaved)));
  EXPECT_LT(last_saved(command, std::string::npos), kSteps);
  disk.empty();
  const std::size_t from = command.text().size();
  signal_ranks(command, SIGCONT);
  expect_goes_on_and_saves(command, "disk/run", from);
  EXPECT_EQ(weights_of("disk/run"), expected);
}

// The same command continues the run.
TEST_F(DiskFaults, FullDiskEndsIfAsked) {
  const std::string expected = undisturbed_weights();
  const SmallDisk disk(folder_ / "disk");
  if (!disk.mounted()) GTEST_SKIP() << "only root can mount a small disk";
  const auto fills = [&](WatchedCommand& started) {
    disk.empty();
    if (!started.wait_for("checkpoint: step 50,")) return false;
    while (!started.living().empty()) {
      fill_under(started, disk);
      started.read_until(Clock::now() + milliseconds(20));
    }
    return started.wait_for("No space left on device");
  };
  const auto full = struck("disk/run", two_ranks("disk/run", "stop"), fills);
  WatchedCommand& command = *full;
  EXPECT_EQ(command.finish(), 4) << command.text();
  expect_said(command, "disk/run/", "No space left on device");
  const int saved = last_saved(command, std::string::npos);
  expect_whole("disk/run", saved);
  disk.empty();
  expect_same_command_ends_it("disk/run", saved);
  EXPECT_EQ(weights_of("disk/run"), expected);
}

// Training continues, and saves when the disk works again.
TEST_F(DiskFaults, FailingDiskDelaysSaves) {
  const std::string expected = undisturbed_weights();
  for (const auto& [calls, rank] : {std::pair("fsync,fdatasync", 1), std::pair("fallocate", 0)}) {
    const std::string run = fmt::format("run-{}", rank);
    std::unique_ptr<WatchedCommand> strace;
    const auto fails = [&, calls = calls, rank = rank](WatchedCommand& started) {
      const pid_t pid = started.wait_for("checkpoint: step 50,") ? started.wait_for_rank(rank) : -1;
      if (pid <= 0) return false;
      strace = fail_calls(calls, pid);
      if (strace == nullptr) return true;
      if (!started.wait_for(kNotSaved)) return false;
      strace->send(SIGINT);
      strace->finish();
      return stop_before_the_last_save(started);
    };
    const auto failing = struck(run, two_ranks(run), fails);
    if (strace == nullptr) GTEST_SKIP() << "strace is missing, or may not attach";
    WatchedCommand& command = *failing;
    expect_said(command, run + "/checkpoints/step-", "Input/output error");
    expect_whole(run, last_saved(command, command.text().find(kNotSaved)));
    const std::size_t from = command.text().size();
    signal_ranks(command, SIGCONT);
    expect_goes_on_and_saves(command, run, from);
    EXPECT_EQ(weights_of(run), expected);
  }
}

// The same command continues the run.
TEST_F(DiskFaults, FailingDiskEndsIfAsked) {
  const std::string expected = undisturbed_weights();
  std::unique_ptr<WatchedCommand> strace;
  const auto failing = struck("run", two_ranks("run", "stop"), [&](WatchedCommand& started) {
    const pid_t pid = started.wait_for("checkpoint: step 50,") ? started.wait_for_rank(1) : -1;
    if (pid <= 0) return false;
    strace = fail_calls("fsync,fdatasync", pid);
    return strace == nullptr || started.wait_for("Input/output error");
  });
  if (strace == nullptr) GTEST_SKIP() << "strace is missing, or may not attach";
  WatchedCommand& command = *failing;
  EXPECT_EQ(command.finish(), 4) << command.text();
  expect_said(command, "run/checkpoints/step-", "Input/output error");
  const int saved = last_saved(command, std::string::npos);
  expect_whole("run", saved);
  expect_same_command_ends_it("run", saved);
  EXPECT_EQ(weights_of("run"), expected);
}

}  // namespace
}  // namespace zero
